package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// An Edited is a parent as somebody would have it: what a plan supposes to be live.
type Edited struct {
	// Object is the object as JSON values, as a file of kubectl apply holds it. It is read
	// only. Its status doesn't count. With a resourceVersion it is the whole object, as a
	// file of kubectl replace holds it.
	Object map[string]any
	// Source says where the object comes from, "shop.yaml: document 2". Errors begin with it.
	Source string
}

// Key returns the namespace and name of the object.
func (d *Edited) Key() types.NamespacedName {
	meta := d.metadata()
	namespace, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// Type returns the type of the object.
func (d *Edited) Type() resource.Type {
	apiVersion, _ := d.Object["apiVersion"].(string)
	kind, _ := d.Object["kind"].(string)
	return resource.Type{APIVersion: apiVersion, Kind: kind}
}

// Whole says whether the object is sent as it is. Otherwise fields that it lacks stay
// what they are, as kubectl apply leaves them.
func (d *Edited) Whole() bool {
	version, _ := d.metadata()["resourceVersion"].(string)
	return version != ""
}

// String returns "Shop ns/name".
func (d *Edited) String() string { return object.Ref{Type: d.Type(), Key: d.Key()}.String() }

func (d *Edited) metadata() map[string]any { return MetadataOf(d.Object) }

// MetadataOf returns the metadata of an object as JSON values, nil if it has none.
func MetadataOf(object map[string]any) map[string]any {
	meta, _ := object["metadata"].(map[string]any)
	return meta
}

// CheckAgainst returns an error if the object was read before the live one was changed,
// or is another object of that name.
func (d *Edited) CheckAgainst(live *resource.Resource) error {
	uid, _ := d.metadata()["uid"].(string)
	version, _ := d.metadata()["resourceVersion"].(string)
	switch {
	case uid != "" && uid != string(live.UID()):
		return fmt.Errorf("metadata.uid is %s, and the live object is another one, %s; take uid and resourceVersion out", uid, live.UID())
	case version != "" && version != live.ResourceVersion():
		return fmt.Errorf("metadata.resourceVersion is %s, and the live object has changed since, to %s; take it out, or read the object anew", version, live.ResourceVersion())
	}
	return nil
}

// CheckEdited returns the objects as the parents of an operator that they must be, or an
// error that joins every mistake, and names the source and the object of each.
func CheckEdited(s *catalog.Settings, edited []Edited) ([]Edited, error) {
	var errs []error
	out := make([]Edited, 0, len(edited))
	seen := map[types.NamespacedName]string{} // key -> source
	for _, d := range edited {
		d, err := checkOne(s, d)
		if err == nil {
			if other, twice := seen[d.Key()]; twice {
				err = fmt.Errorf("%s is there already in %s; a plan supposes one state of a parent", &d, other)
			}
			seen[d.Key()] = cmp.Or(seen[d.Key()], d.Source)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.Source, err))
			continue
		}
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}

// checkOne is CheckEdited for one object. It takes out what the API server sets itself,
// and the status.
func checkOne(s *catalog.Settings, d Edited) (Edited, error) {
	key := d.Key()
	switch {
	case d.Type().Kind == "" || d.Type().APIVersion == "":
		return d, errors.New("apiVersion or kind is missing")
	case key.Name == "":
		return d, fmt.Errorf("%s: metadata.name is missing", d.Type().Kind)
	}
	if err := CheckParentType(&s.Config, &d); err != nil {
		return d, err
	}
	meta := maps.Clone(d.metadata())
	for _, own := range []string{"managedFields", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"} {
		delete(meta, own)
	}
	of := s.Config.Namespaces
	switch {
	case !s.Types.Parent.Namespaced:
		delete(meta, "namespace")
	case key.Namespace == "" && len(of) == 1:
		meta["namespace"] = of[0]
	case key.Namespace == "":
		return d, fmt.Errorf("%s: metadata.namespace is missing; set it, or name one by --namespace or config.Operator.Namespaces", &d)
	case len(of) > 0 && !slices.Contains(of, key.Namespace):
		return d, fmt.Errorf("%s: the operator %s works in %s only, and wouldn't see it", &d, s.Config.Name, namespacesText(of))
	}
	d.Object = maps.Clone(d.Object)
	d.Object["metadata"] = meta
	delete(d.Object, "status")
	return d, nil
}

func namespacesText(names []string) string {
	if len(names) == 1 {
		return "the namespace " + names[0]
	}
	return "the namespaces " + strings.Join(names, ", ")
}

// CheckParentType returns an error if an object isn't of the type of an operator's
// parents.
func CheckParentType(o *config.Operator, d *Edited) error {
	t := d.Type()
	switch {
	case t == o.Parent:
		return nil
	case t.Kind == o.Parent.Kind && group(t) == group(o.Parent):
		return fmt.Errorf("%s is of version %s, and the operator %s works with %s; write it in that version", d, t.APIVersion, o.Name, o.Parent.APIVersion)
	case slices.ContainsFunc(o.Children, func(c config.Child) bool { return c.Type.Kind == t.Kind && group(c.Type) == group(t) }):
		return fmt.Errorf("%s is of a type of children, which the operator %s writes itself; give its parent (%s) instead", d, o.Name, o.Parent)
	}
	return fmt.Errorf("%s: the parents of the operator %s are of the type %s, not %s", d, o.Name, o.Parent, t)
}

func group(t resource.Type) string { return t.GroupVersionKind().Group }

// LastApplied is the annotation in which kubectl apply keeps what it was given last.
const LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// AsApplied returns the object as kubectl apply sends it where live was applied that
// way before: with what it was given in an annotation. original is what it was given
// last, nil if live doesn't say.
func (d *Edited) AsApplied(live *resource.Resource) (modified, original []byte, err error) {
	last, ok := live.Annotation(LastApplied)
	if !ok {
		modified, err = json.Marshal(d.Object)
		return modified, nil, err
	}
	applied, err := json.Marshal(d.Object)
	if err != nil {
		return nil, nil, err
	}
	object := maps.Clone(d.Object)
	meta := maps.Clone(d.metadata())
	annotations, _ := meta["annotations"].(map[string]any)
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[LastApplied] = string(applied) + "\n"
	meta["annotations"], object["metadata"] = annotations, meta
	modified, err = json.Marshal(object)
	return modified, []byte(last), err
}
