package runner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/resource"
)

// A desiredChild is one child of a valid response.
type desiredChild struct {
	kind *kind
	ref  objectRef
	keep bool // shall exist exactly as it is

	sum    digest         // of what the handler returned, for the quick check
	object map[string]any // without what the engine sets itself; nil until load
	hash   digest         // of what the handler wants, however it is spelled

	returned any          // by the handler, while object is nil
	known    *childMemory // what is remembered of it, where that is known already
}

// desire validates the children that a handler returned for parent. The error
// joins every mistake, each naming the child and the field. What is the same as
// in an earlier response was validated then.
func (s *settings) desire(parent *resource.Resource, children []any, memory *parentMemory) ([]*desiredChild, error) {
	out := make([]*desiredChild, 0, len(children))
	all := make([]desiredChild, len(children))
	var summer encode.Summer
	var unique uniqueness
	var errs []error
	for i, obj := range children {
		d := &all[i]
		if err := s.desireOne(d, parent, obj, i, memory, &summer); err != nil {
			errs = append(errs, fmt.Errorf("child %d: %w", i, err))
			continue
		}
		if first, twice := unique.add(all, i, &memory.children); twice {
			errs = append(errs, fmt.Errorf("child %d: %s %s: metadata.name: child %d is the same object; return each child once", i, d.ref.Type, keyText(d.ref.Key), first))
			continue
		}
		out = append(out, d)
	}
	if len(errs) > 0 {
		return nil, &invalidResponseError{joined(errs)}
	}
	return out, nil
}

// desireOne fills in d from what the handler returned as child i.
func (s *settings) desireOne(d *desiredChild, parent *resource.Resource, obj any, i int, memory *parentMemory, summer *encode.Summer) error {
	if k, ok := obj.(encode.Kept); ok {
		return s.keep(d, k.Resource)
	}
	var ok bool
	if d.sum, ok = sumOf(summer, obj); ok {
		if c := memory.children.returned(i, d.sum); c != nil {
			d.kind, d.ref, d.hash, d.returned, d.known = c.kind, c.ref(), c.hash, obj, c
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
	if d.kind, err = s.validate(parent, head); err != nil {
		return err
	}
	d.ref = objectRef{d.kind.Type, types.NamespacedName{Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}}.own(parent)
	d.object = want
	s.complete(d, parent)
	d.hash = hashOf(d.object)
	return nil
}

// A uniqueness finds children that a response has twice. As long as they are
// those of the last response, in its order, they can't be.
type uniqueness struct{ seen map[objectRef]int }

// add returns the earlier child that is the same object as all[i], false if
// there is none.
func (u *uniqueness) add(all []desiredChild, i int, last *childMemories) (first int, twice bool) {
	if u.seen == nil {
		if i < len(last.list) && all[i].known != nil && all[i].known == last.list[i] {
			return 0, false
		}
		u.seen = make(map[objectRef]int, len(all))
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
func (u *uniqueness) note(all []desiredChild, i int) {
	if all[i].kind != nil {
		u.seen[all[i].ref] = i
	}
}

// own returns the same reference, with strings that keep nothing else in memory:
// it is remembered for as long as the child is there.
func (r objectRef) own(parent *resource.Resource) objectRef {
	r.Key.Name = strings.Clone(r.Key.Name)
	if r.Key.Namespace == parent.Namespace() {
		r.Key.Namespace = parent.Namespace()
	} else {
		r.Key.Namespace = strings.Clone(r.Key.Namespace)
	}
	return r
}

// load makes the object of a child that was known by its sum.
func (s *settings) load(d *desiredChild, parent *resource.Resource) error {
	if d.object != nil {
		return nil
	}
	want, err := encoded(encode.Map, d.returned)
	if err != nil {
		return named(d.returned, err)
	}
	d.object, d.returned = want, nil
	s.complete(d, parent)
	return nil
}

// sumOf returns the quick hash of a child, false if it can't be encoded.
func sumOf(summer *encode.Summer, obj any) (d digest, ok bool) {
	defer func() { ok = recover() == nil && ok }()
	sum, err := summer.Sum(obj)
	return digest(sum[:]), err == nil
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
	return fmt.Errorf("%s %s: %w", t, keyText(key), err)
}

// keep takes an observed child for desired as it is.
func (s *settings) keep(d *desiredChild, res *resource.Resource) error {
	if res == nil {
		return errors.New("handler.Keep: the child is nil")
	}
	k := s.types.byType[res.Type()]
	if k == nil || k == s.types.parent {
		return fmt.Errorf("%s %s: handler.Keep: not a configured child type", res.Type(), keyText(res.Key()))
	}
	d.kind, d.ref, d.keep = k, refOf(res), true
	return nil
}

// complete takes off a child what isn't the handler's to say.
func (s *settings) complete(d *desiredChild, parent *resource.Resource) {
	delete(d.object, "status")
	spellOut(d.kind.Type, d.kind.builtin, d.object)
	meta := object(d.object, "metadata")
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"} {
		delete(meta, name)
	}
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		delete(annotations, s.mark)
		if len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
	if labels, ok := meta["labels"].(map[string]any); ok {
		delete(labels, s.cfg.TrackingLabel)
		delete(labels, s.cfg.OwnershipLabel)
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

// full returns the child as it is written: with the engine's labels, owner
// reference and mark.
func (s *settings) full(d *desiredChild, parent *resource.Resource, mark string) map[string]any {
	out := maps.Clone(d.object)
	meta, _ := out["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	out["metadata"] = meta
	labels := cloneObject(meta, "labels")
	labels[s.cfg.TrackingLabel] = string(parent.UID())
	labels[s.cfg.OwnershipLabel] = s.cfg.Name
	cloneObject(meta, "annotations")[s.mark] = mark
	others, _ := meta["ownerReferences"].([]any)
	meta["ownerReferences"] = append(slices.Clip(others), s.ownerReference(parent))
	return out
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

func (s *settings) ownerReference(parent *resource.Resource) map[string]any {
	return map[string]any{
		"apiVersion": parent.Type().APIVersion, "kind": parent.Type().Kind,
		"name": parent.Name(), "uid": string(parent.UID()),
		"controller": true, "blockOwnerDeletion": true,
	}
}

// object returns the object under key, made if there is none.
func object(of map[string]any, key string) map[string]any {
	if m, ok := of[key].(map[string]any); ok {
		return m
	}
	m := map[string]any{}
	of[key] = m
	return m
}

// hashOf returns a hash of a desired state that doesn't depend on how it is
// spelled: nulls say nothing, and keys have no order.
func hashOf(desired map[string]any) digest { return jsonSum(nullFree(desired)) }
