package plan

import (
	"errors"
	"fmt"
	"iter"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/guard"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A Desired is one child of a valid response. Other rooms can't change it.
//
// Most children are the same in every response. Desire knows these by the digest
// of what the handler returned, and leaves their object unmade. Build makes the
// object of a child that has to be compared: see load. So until Build has
// returned, a Desired belongs to one goroutine. From then on nothing changes it,
// and any number of goroutines may read it.
type Desired struct {
	kind   *catalog.Kind
	ref    object.Ref
	parent *resource.Resource // whose child it is
	keep   bool               // the live child is to stay exactly as it is (handler.Keep)

	sum    jsonvalue.Digest // of what the handler returned, as the handler spelled it
	hash   jsonvalue.Digest // of the desired state, however the handler spelled it
	object map[string]any   // the desired state, without what the engine sets; nil: not made yet
	left   []fieldpath.Path // the fields that are others' (handler.Leave), once object is made
	gate   *gate            // what its creation waits for; nil: nothing

	returned any          // what the handler returned; nil once object is made
	known    *childMemory // what is remembered of the child; nil: not looked up
}

// Refs returns which objects are desired.
func Refs(desired []*Desired) iter.Seq[object.Ref] {
	return func(yield func(object.Ref) bool) {
		for _, d := range desired {
			if !yield(d.ref) {
				return
			}
		}
	}
}

// Object returns the desired state as JSON values, without what the engine sets:
// its labels, its mark and the parent's owner reference. The map is read only. It
// is nil for a child that Build had no need to compare.
func (d *Desired) Object() map[string]any { return d.object }

// Hash returns a digest of the desired state, which doesn't depend on how the
// handler spelled it.
func (d *Desired) Hash() jsonvalue.Digest { return d.hash }

// Left returns the paths of the fields that are others': see handler.Leave. The slice
// is read only. It is empty for a child that Build had no need to compare.
func (d *Desired) Left() []fieldpath.Path { return d.left }

// Desire validates the children that a handler returned for parent. They may be
// of any type that encode.Map takes, handler.Keep of an observed child, or
// handler.Leave, After or When of either. memory is only read.
//
// The error is an InvalidResponseError. It joins all mistakes, each of which names
// the child and the field. A child that is the same as in an earlier response
// isn't validated again.
func Desire(s *catalog.Settings, parent *resource.Resource, children []any, memory *ParentMemory) ([]*Desired, error) {
	out := make([]*Desired, 0, len(children))
	all := make([]Desired, len(children))
	r := reader{settings: s, parent: parent, memory: memory}
	var unique uniqueness
	var errs []error
	for i, obj := range children {
		d := &all[i]
		d.parent = parent
		if err := r.read(d, obj, i); err != nil {
			errs = append(errs, fmt.Errorf("child %d: %w", i, err))
			continue
		}
		if first, twice := unique.add(all, i, &memory.children); twice {
			errs = append(errs, fmt.Errorf("child %d: %s %s: metadata.name: child %d is the same object; return each child once", i, d.ref.Type, object.KeyText(d.ref.Key), first))
			continue
		}
		out = append(out, d)
	}
	if len(errs) > 0 {
		return nil, &InvalidResponseError{apierror.Join(errs)}
	}
	return out, nil
}

// A reader reads the children of one response. One goroutine may use it.
type reader struct {
	settings *catalog.Settings
	parent   *resource.Resource
	memory   *ParentMemory // read only
	summer   encode.Summer // its buffers serve one child after the other
}

// read fills in d from obj, which the handler returned as child i.
func (r *reader) read(d *Desired, obj any, i int) error {
	child, wishes := encode.Inner(obj)
	d.gate = newGate(wishes)
	if k, ok := child.(encode.Kept); ok {
		return keep(r.settings, d, k.Resource, wishes.Left)
	}
	var ok bool
	if d.sum, ok = sumOf(&r.summer, obj); ok {
		if c := r.memory.children.returned(i, d.sum); c != nil {
			d.kind, d.ref, d.hash, d.returned, d.known = c.kind, c.ref(), c.hash, obj, c
			return nil
		}
	}
	want, err := encoded(r.summer.Map, obj)
	if err != nil {
		return named(obj, err)
	}
	head, err := readHeader(want)
	if err != nil {
		return named(obj, err)
	}
	if d.kind, err = validate(r.settings, r.parent, head); err != nil {
		return explainUntyped(child, head, err)
	}
	if d.left, err = leftPaths(wishes.Left); err != nil {
		return named(obj, err)
	}
	d.kind = d.kind.Leaving(d.left)
	d.ref = object.Ref{Type: d.kind.Type, Key: types.NamespacedName{Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}}.DetachedFrom(r.parent)
	d.object = want
	d.complete(r.settings, r.parent)
	d.hash = hashOf(d.kind, d.owned())
	return nil
}

// load makes the object of a child that Desire knew by its digest alone. It does
// nothing if the object is made already. The error says why the child can't be
// encoded. Build alone calls load, before any action refers to d: nothing changes
// a Desired afterwards.
func (d *Desired) load(s *catalog.Settings, parent *resource.Resource) error {
	if d.object != nil {
		return nil
	}
	want, err := encoded(encode.Map, d.returned)
	if err != nil {
		return named(d.returned, err)
	}
	_, wishes := encode.Inner(d.returned)
	if d.left, err = leftPaths(wishes.Left); err != nil {
		return named(d.returned, err)
	}
	d.object, d.returned = want, nil
	d.complete(s, parent)
	return nil
}

// sumOf returns the digest of a child as the handler spelled it, false if the
// child can't be encoded. A panic of the child's type counts as such.
func sumOf(summer *encode.Summer, obj any) (d jsonvalue.Digest, ok bool) {
	defer func() { ok = recover() == nil && ok }()
	sum, err := summer.Sum(obj)
	return jsonvalue.Digest(sum[:]), err == nil
}

// encoded returns a child as JSON values, by the function to. A panic of to, which
// the methods of a user's type may cause, becomes an error.
func encoded(to func(any) (map[string]any, error), obj any) (want map[string]any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%T: encode: %w", obj, guard.Recovered(v))
		}
	}()
	return to(obj)
}

// named puts the type and the name of a child before an error. If the child
// doesn't tell its type, or panics, the error stays as it is.
func named(obj any, err error) (out error) {
	defer func() {
		if recover() != nil {
			out = err
		}
	}()
	t, key, idErr := encode.Identity(obj)
	if idErr != nil || t.Kind == "" {
		return err
	}
	return fmt.Errorf("%s %s: %w", t, object.KeyText(key), err)
}

// keep fills in d so that the observed child res stays exactly as it is. left are the
// paths that the handler leaves to others, all the same.
func keep(s *catalog.Settings, d *Desired, res *resource.Resource, left []string) error {
	if res == nil {
		return errors.New("handler.Keep: the child is nil")
	}
	k := s.Types.Of(res.Type())
	if k == nil || k == s.Types.Parent {
		return fmt.Errorf("%s %s: handler.Keep: not a configured child type", res.Type(), object.KeyText(res.Key()))
	}
	if _, err := leftPaths(left); err != nil {
		return fmt.Errorf("%s %s: %w", res.Type(), object.KeyText(res.Key()), err)
	}
	d.kind, d.ref, d.keep = k, object.RefOf(res), true
	return nil
}

// complete makes the object of a child what the engine compares: without the
// fields that aren't the handler's to set, with the name and the namespace that
// the child is given, and with the aliases that spellOut fills in.
func (d *Desired) complete(s *catalog.Settings, parent *resource.Resource) {
	delete(d.object, "status")
	spellOut(d.kind.Type, d.kind.Builtin, d.object)
	meta := objectAt(d.object, "metadata")
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"} {
		delete(meta, name)
	}
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		delete(annotations, s.Mark)
		if len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
	if labels, ok := meta["labels"].(map[string]any); ok {
		for _, name := range s.LabelNames() {
			delete(labels, name)
		}
	}
	others := foreignOwners(meta, parent.UID())
	delete(meta, "ownerReferences")
	if len(others) > 0 {
		meta["ownerReferences"] = others
	}
	meta["name"] = d.ref.Key.Name
	delete(meta, "namespace")
	if d.ref.Key.Namespace != "" {
		meta["namespace"] = d.ref.Key.Namespace
	}
}

// cloneObject replaces the object under key by a shallow copy, and returns the
// copy. If there is no object, the copy is empty.
func cloneObject(of map[string]any, key string) map[string]any {
	m, _ := of[key].(map[string]any)
	m = maps.Clone(m)
	if m == nil {
		m = map[string]any{}
	}
	of[key] = m
	return m
}

// objectAt returns the object under a key. If there is none, it puts an empty one
// there.
func objectAt(of map[string]any, key string) map[string]any {
	if m, ok := of[key].(map[string]any); ok {
		return m
	}
	m := map[string]any{}
	of[key] = m
	return m
}

// hashOf returns a digest of a desired state of type k. The digest doesn't depend on
// how the state is spelled: nulls say nothing, and neither keys nor the items of sets
// have an order. Nor does it depend on ignored fields.
func hashOf(k *catalog.Kind, desired map[string]any) jsonvalue.Digest {
	return jsonvalue.Sum(k.Comparison.Canonical(desired))
}
