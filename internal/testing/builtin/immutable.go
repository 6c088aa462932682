package builtin

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A frozen field of a type can't be changed. It is all of what is at its path, but for those fields in it that may
// change.
type frozen struct {
	path     string
	but      []string
	mayCome  []string // fields that may be set as long as they aren't
	forbids  bool     // the refusal is Forbidden, not Invalid
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
		return []frozen{{
			path: "spec", but: []string{"resources", "volumeAttributesClassName"}, mayCome: []string{"storageClassName", "volumeName"},
			forbids: true, says: "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
		}}
	case "Pod":
		return []frozen{{
			path: "spec", but: []string{"activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates"}, mayCome: []string{"nodeName"}, // which its binding says
			forbids: true, says: "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
				"`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
		}}
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
	case "EndpointSlice":
		return []frozen{{path: "addressType", says: isImmutable}}
	case "ControllerRevision":
		return []frozen{{path: "data", says: isImmutable}}
	case "PriorityClass":
		return []frozen{{path: "value", forbids: true, says: "may not be changed in an update."}, {path: "preemptionPolicy", says: isImmutable}}
	case "StorageClass":
		return []frozen{
			{path: "parameters", says: isImmutable}, {path: "provisioner", says: isImmutable},
			{path: "reclaimPolicy", says: isImmutable}, {path: "volumeBindingMode", says: isImmutable},
		}
	}
	return nil
}

// Frozen says which fields of an object, as Read returns it, can't be changed as they were.
func (r *Reader) Frozen(was, is map[string]any) (out field.ErrorList) {
	if r.gvk.Kind == "Service" {
		return frozenAddress(was, is)
	}
	for _, f := range frozenFields(r.gvk.Kind) {
		before, after := at(was, f.path), at(is, f.path)
		if f.onlyWhen != nil && !f.onlyWhen(was) || same(f.compared(before, before), f.compared(after, before), false) {
			continue
		}
		path := field.NewPath(f.path)
		if f.forbids {
			out = append(out, field.Forbidden(path, f.says))
		} else {
			out = append(out, field.Invalid(path, after, f.says))
		}
	}
	return out
}

func at(object map[string]any, path string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, strings.Split(path, ".")...)
	return value
}

// compared returns a value, which was another one before, without what may change.
func (f frozen) compared(value, before any) any {
	m, ok := value.(map[string]any)
	if !ok {
		return value
	}
	m = maps.Clone(m)
	was, _ := before.(map[string]any)
	maps.DeleteFunc(m, func(name string, _ any) bool {
		return slices.Contains(f.but, name) || slices.Contains(f.mayCome, name) && was[name] == nil
	})
	for _, list := range []string{"containers", "initContainers"} { // of a Pod, whose images may change
		items, _ := m[list].([]any)
		for i, item := range items {
			container, _ := runtime.DeepCopyJSONValue(item).(map[string]any)
			delete(container, "image")
			items = slices.Clone(items)
			items[i] = container
		}
		if items != nil {
			m[list] = items
		}
	}
	return m
}

// Same says whether two objects have the same contents, for which a generation is counted.
func Same(a, b map[string]any) bool { return same(a, b, false) }

// same says whether two values are the same. Quantities are, though they be written in two ways.
func same(a, b any, quantities bool) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			other, ok := b[name]
			if !ok || !same(value, other, quantities || name == "requests" || name == "limits") {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(a, b any) bool { return same(a, b, quantities) })
	case string:
		b, ok := b.(string)
		if !ok || a == b || !quantities {
			return ok && a == b
		}
		one, err1 := resource.ParseQuantity(a)
		two, err2 := resource.ParseQuantity(b)
		return err1 == nil && err2 == nil && one.Cmp(two) == 0
	}
	return reflect.DeepEqual(a, b)
}
