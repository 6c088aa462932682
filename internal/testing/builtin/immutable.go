package builtin

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A frozen field of a type can't be changed. It is all of what is at its path, but for those fields in it that may
// change.
type frozen struct {
	path     string
	but      []string
	forbids  bool // the refusal is Forbidden, not Invalid
	says     string
	onlyWhen func(was map[string]any) bool // nil: always
}

const isImmutable = "field is immutable"

// frozenFields returns the frozen fields of a kind, as far as operators meet them.
func frozenFields(kind string) []frozen {
	switch kind {
	case "Deployment", "DaemonSet", "ReplicaSet":
		return []frozen{{path: "spec.selector", says: isImmutable}}
	case "StatefulSet":
		return []frozen{{
			path: "spec", but: []string{"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy", "minReadySeconds"},
			forbids: true, says: "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
		}}
	case "Job":
		always := func(path string) frozen { return frozen{path: path, says: isImmutable} }
		return []frozen{
			always("spec.selector"), always("spec.completionMode"), always("spec.podFailurePolicy"), always("spec.backoffLimitPerIndex"), always("spec.managedBy"), always("spec.successPolicy"),
			{path: "spec.completions", says: isImmutable, onlyWhen: func(was map[string]any) bool { return at(was, "spec.completionMode") != "Indexed" }},
			{path: "spec.template", says: isImmutable, onlyWhen: func(was map[string]any) bool { return at(was, "spec.suspend") != true }},
		}
	case "PersistentVolumeClaim":
		claim := frozen{path: "spec", but: []string{"resources", "volumeAttributesClassName"}, forbids: true, says: "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"}
		waiting := claim // for a class, which may still be named
		waiting.but = append(waiting.but, "storageClassName")
		named := func(was map[string]any) bool { return at(was, "spec.storageClassName") != nil }
		claim.onlyWhen, waiting.onlyWhen = named, func(was map[string]any) bool { return !named(was) }
		return []frozen{claim, waiting}
	case "ConfigMap", "Secret":
		whenSet := func(path string) frozen {
			return frozen{path: path, forbids: true, says: "field is immutable when `immutable` is set", onlyWhen: func(was map[string]any) bool { return was["immutable"] == true }}
		}
		out := []frozen{whenSet("immutable"), whenSet("data")}
		if kind == "ConfigMap" {
			return append(out, whenSet("binaryData"))
		}
		return append([]frozen{{path: "type", says: isImmutable}}, out...)
	case "RoleBinding", "ClusterRoleBinding":
		return []frozen{{path: "roleRef", says: "cannot change roleRef"}}
	}
	return nil
}

// Frozen says which fields of an object, as Read returns it, can't be changed as they were.
func (r *Reader) Frozen(was, is map[string]any) (out field.ErrorList) {
	for _, f := range frozenFields(r.gvk.Kind) {
		if f.onlyWhen != nil && !f.onlyWhen(was) || reflect.DeepEqual(without(at(was, f.path), f.but), without(at(is, f.path), f.but)) {
			continue
		}
		path := field.NewPath(f.path)
		if f.forbids {
			out = append(out, field.Forbidden(path, f.says))
		} else {
			out = append(out, field.Invalid(path, at(is, f.path), f.says))
		}
	}
	return out
}

func at(object map[string]any, path string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, strings.Split(path, ".")...)
	return value
}

// without returns a value without some of its fields.
func without(value any, fields []string) any {
	m, ok := value.(map[string]any)
	if !ok || len(fields) == 0 {
		return value
	}
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(name string, _ any) bool { return slices.Contains(fields, name) })
	return m
}
