package plan

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A Desired is one child of a valid response.
type Desired struct {
	kind *catalog.Kind
	ref  object.Ref
	keep bool // shall exist exactly as it is

	sum    jsonvalue.Digest // of what the handler returned, for the quick check
	Object map[string]any   // without what the engine sets itself; nil until load
	Hash   jsonvalue.Digest // of what the handler wants, however it is spelled

	returned any          // by the handler, while object is nil
	known    *childMemory // what is remembered of it, where that is known already
}

// Desire validates the children that a handler returned for parent. The error
// joins every mistake, each naming the child and the field. What is the same as
// in an earlier response was validated then.
func Desire(s *catalog.Settings, parent *resource.Resource, children []any, memory *ParentMemory) ([]*Desired, error) {
	out := make([]*Desired, 0, len(children))
	all := make([]Desired, len(children))
	var summer encode.Summer
	var unique uniqueness
	var errs []error
	for i, obj := range children {
		d := &all[i]
		if err := desireOne(s, d, parent, obj, i, memory, &summer); err != nil {
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

// desireOne fills in d from what the handler returned as child i.
func desireOne(s *catalog.Settings, d *Desired, parent *resource.Resource, obj any, i int, memory *ParentMemory, summer *encode.Summer) error {
	if k, ok := obj.(encode.Kept); ok {
		return keep(s, d, k.Resource)
	}
	var ok bool
	if d.sum, ok = sumOf(summer, obj); ok {
		if c := memory.children.returned(i, d.sum); c != nil {
			d.kind, d.ref, d.Hash, d.returned, d.known = c.kind, c.ref(), c.hash, obj, c
			return nil
		}
	}
	want, err := encoded(summer.Map, obj)
	if err != nil {
		return named(obj, err)
	}
	head, err := readHeader(want)
	if err != nil {
		return named(obj, err)
	}
	if d.kind, err = validate(s, parent, head); err != nil {
		return err
	}
	d.ref = object.Ref{Type: d.kind.Type, Key: types.NamespacedName{Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}}.DetachedFrom(parent)
	d.Object = want
	complete(s, d, parent)
	d.Hash = hashOf(d.Object)
	return nil
}

// A uniqueness finds children that a response has twice. As long as they are
// those of the last response, in its order, they can't be.
type uniqueness struct{ seen map[object.Ref]int }

// add returns the earlier child that is the same object as all[i], false if
// there is none.
func (u *uniqueness) add(all []Desired, i int, last *childMemories) (first int, twice bool) {
	if u.seen == nil {
		if i < len(last.list) && all[i].known != nil && all[i].known == last.list[i] {
			return 0, false
		}
		u.seen = make(map[object.Ref]int, len(all))
		for earlier := range i {
			u.note(all, earlier)
		}
	}
	if first, twice = u.seen[all[i].ref]; !twice {
		u.note(all, i)
	}
	return first, twice
}

// note leaves out what was refused.
func (u *uniqueness) note(all []Desired, i int) {
	if all[i].kind != nil {
		u.seen[all[i].ref] = i
	}
}

// load makes the object of a child that was known by its sum.
func load(s *catalog.Settings, d *Desired, parent *resource.Resource) error {
	if d.Object != nil {
		return nil
	}
	want, err := encoded(encode.Map, d.returned)
	if err != nil {
		return named(d.returned, err)
	}
	d.Object, d.returned = want, nil
	complete(s, d, parent)
	return nil
}

// sumOf returns the quick hash of a child, false if it can't be encoded.
func sumOf(summer *encode.Summer, obj any) (d jsonvalue.Digest, ok bool) {
	defer func() { ok = recover() == nil && ok }()
	sum, err := summer.Sum(obj)
	return jsonvalue.Digest(sum[:]), err == nil
}

// encoded returns a child as JSON values, which to makes of it. A panic, which
// types of the user's own may cause, is an error.
func encoded(to func(any) (map[string]any, error), obj any) (want map[string]any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%T: encode: panic: %v", obj, v)
		}
	}()
	return to(obj)
}

// named puts the child's identity, as far as it is known, before an error.
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

// keep takes an observed child for desired as it is.
func keep(s *catalog.Settings, d *Desired, res *resource.Resource) error {
	if res == nil {
		return errors.New("handler.Keep: the child is nil")
	}
	k := s.Types.Of(res.Type())
	if k == nil || k == s.Types.Parent {
		return fmt.Errorf("%s %s: handler.Keep: not a configured child type", res.Type(), object.KeyText(res.Key()))
	}
	d.kind, d.ref, d.keep = k, object.RefOf(res), true
	return nil
}

// complete takes off a child what isn't the handler's to say.
func complete(s *catalog.Settings, d *Desired, parent *resource.Resource) {
	delete(d.Object, "status")
	spellOut(d.kind.Type, d.kind.Builtin, d.Object)
	meta := objectAt(d.Object, "metadata")
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
		delete(labels, s.Config.TrackingLabel)
		delete(labels, s.Config.OwnershipLabel)
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

// cloneObject replaces the object under key by a copy of it, which it returns.
func cloneObject(of map[string]any, key string) map[string]any {
	m, _ := of[key].(map[string]any)
	m = maps.Clone(m)
	if m == nil {
		m = map[string]any{}
	}
	of[key] = m
	return m
}

func foreignOwners(meta map[string]any, parent types.UID) []any {
	var others []any
	list, _ := meta["ownerReferences"].([]any)
	for _, item := range list {
		if ref, ok := item.(map[string]any); ok && ref["uid"] != string(parent) {
			others = append(others, ref)
		}
	}
	return others
}

// objectAt returns the object under a key, a new one if there is none.
func objectAt(of map[string]any, key string) map[string]any {
	if m, ok := of[key].(map[string]any); ok {
		return m
	}
	m := map[string]any{}
	of[key] = m
	return m
}

// hashOf returns a hash of a desired state that doesn't depend on how it is
// spelled: nulls say nothing, and keys have no order.
func hashOf(desired map[string]any) jsonvalue.Digest {
	return jsonvalue.Sum(jsonvalue.NullFree(desired))
}
