package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/kept"
	"github.com/roperator/roperator/resource"
)

// A desiredChild is one child of a valid response.
type desiredChild struct {
	kind *kind
	ref  objectRef
	keep bool // shall exist exactly as it is

	sum    [sha256.Size]byte // of what the handler returned, for the quick check
	object map[string]any    // without what the engine sets itself
	hash   string            // of what the handler wants, however it is spelled
}

// A childHeader is what validation reads of a child.
type childHeader struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string                  `json:"name"`
		GenerateName    string                  `json:"generateName"`
		Namespace       string                  `json:"namespace"`
		Labels          map[string]*string      `json:"labels"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
}

// desire validates the children that a handler returned for parent. The error
// joins every mistake, each naming the child and the field.
func (s *settings) desire(parent *resource.Resource, children []any) ([]*desiredChild, error) {
	out := make([]*desiredChild, 0, len(children))
	seen := make(map[objectRef]int, len(children))
	var errs []error
	for i, obj := range children {
		d, err := s.desireOne(parent, obj)
		if err != nil {
			errs = append(errs, fmt.Errorf("child %d: %w", i, err))
			continue
		}
		if first, twice := seen[d.ref]; twice {
			errs = append(errs, fmt.Errorf("child %d: %s %s: metadata.name: child %d is the same object; return each child once", i, d.ref.Type, keyText(d.ref.Key), first))
			continue
		}
		seen[d.ref] = i
		out = append(out, d)
	}
	if len(errs) > 0 {
		return nil, &invalidResponseError{joined(errs)}
	}
	return out, nil
}

func (s *settings) desireOne(parent *resource.Resource, obj any) (*desiredChild, error) {
	if k, ok := obj.(kept.Child); ok {
		return s.keep(k.Resource)
	}
	want, raw, err := encoded(obj)
	if err != nil {
		return nil, named(obj, err)
	}
	var head childHeader
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, named(obj, notAnObject(err))
	}
	k, err := s.validate(parent, &head)
	if err != nil {
		return nil, err
	}
	d := &desiredChild{
		kind:   k,
		ref:    objectRef{k.Type, types.NamespacedName{Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}},
		sum:    sha256.Sum256(raw),
		object: want,
	}
	s.complete(d, parent)
	return d, nil
}

// encoded returns a child as JSON values and as JSON. A panic, which types of
// the user's own may cause, is an error.
func encoded(obj any) (want map[string]any, raw []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%T: encode: panic: %v", obj, v)
		}
	}()
	if want, err = encode.Map(obj); err != nil {
		return nil, nil, err
	}
	raw, err = json.Marshal(want)
	return want, raw, err
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

// notAnObject says which field of the identity has a value of the wrong type.
func notAnObject(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: a JSON %s can't be that", wrong.Field, wrong.Value)
	}
	return fmt.Errorf("not a Kubernetes object: %w", err)
}

// keep takes an observed child for desired as it is.
func (s *settings) keep(res *resource.Resource) (*desiredChild, error) {
	if res == nil {
		return nil, errors.New("handler.Keep: the child is nil")
	}
	k := s.types.byType[res.Type()]
	if k == nil || k == s.types.parent {
		return nil, fmt.Errorf("%s %s: handler.Keep: not a configured child type", res.Type(), keyText(res.Key()))
	}
	return &desiredChild{kind: k, ref: objectRef{res.Type(), res.Key()}, keep: true}, nil
}

// validate checks a child's identity, and fills in its namespace.
func (s *settings) validate(parent *resource.Resource, head *childHeader) (*kind, error) {
	t := resource.Type{APIVersion: head.APIVersion, Kind: head.Kind}
	m := &head.Metadata
	name := fmt.Sprintf("%s %s", t, keyText(types.NamespacedName{Namespace: m.Namespace, Name: m.Name}))
	switch {
	case t.Kind == "":
		return nil, fmt.Errorf("%q: kind: missing", m.Name)
	case t.APIVersion == "":
		return nil, fmt.Errorf("%s %q: apiVersion: missing", t.Kind, m.Name)
	case m.Name == "" && m.GenerateName != "":
		return nil, fmt.Errorf("%s: metadata.generateName: %q is refused, since a child must have the same name at every call; set metadata.name", t, m.GenerateName)
	case m.GenerateName != "":
		return nil, fmt.Errorf("%s: metadata.generateName: must not be set beside a name", name)
	case m.Name == "":
		return nil, fmt.Errorf("%s: metadata.name: missing", t)
	}
	k := s.types.byType[t]
	if k == nil || k == s.types.parent {
		return nil, fmt.Errorf("%s: kind: not a configured child type; add it to config.Operator.Children", name)
	}
	if msgs := content.IsPathSegmentName(m.Name); len(msgs) > 0 {
		return nil, fmt.Errorf("%s: metadata.name: %s", name, msgs[0])
	}
	if err := s.placeNamespace(parent, k, &m.Namespace); err != nil {
		return nil, fmt.Errorf("%s: metadata.namespace: %w", name, err)
	}
	if err := s.checkLabels(parent, m.Labels); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, ref := range m.OwnerReferences {
		if ref.Controller != nil && *ref.Controller && ref.UID != parent.UID() {
			return nil, fmt.Errorf("%s: metadata.ownerReferences: %s %s can't be the controller: the parent is", name, ref.Kind, ref.Name)
		}
	}
	return k, nil
}

func (s *settings) placeNamespace(parent *resource.Resource, k *kind, namespace *string) error {
	switch {
	case !k.namespaced && parent.Namespace() != "":
		return errors.New("the type is cluster-scoped, and a namespaced parent can't own it")
	case !k.namespaced && *namespace != "":
		return fmt.Errorf("%q: the type is cluster-scoped; leave it empty", *namespace)
	case !k.namespaced:
		return nil
	case parent.Namespace() == "" && *namespace == "":
		return errors.New("missing; a child of a cluster-scoped parent must name its namespace")
	case parent.Namespace() == "":
		if msgs := validation.ValidateNamespaceName(*namespace, false); len(msgs) > 0 {
			return fmt.Errorf("%q: %s", *namespace, msgs[0])
		}
		return nil
	case *namespace == "":
		*namespace = parent.Namespace()
	case *namespace != parent.Namespace():
		return fmt.Errorf("%q: a child must be in its parent's namespace, %q", *namespace, parent.Namespace())
	}
	return nil
}

func (s *settings) checkLabels(parent *resource.Resource, labels map[string]*string) error {
	plain := make(map[string]string, len(labels))
	for key, value := range labels {
		if value != nil {
			plain[key] = *value
		}
	}
	for _, own := range [...]struct{ label, value string }{{s.cfg.TrackingLabel, string(parent.UID())}, {s.cfg.OwnershipLabel, s.cfg.Name}} {
		if got, ok := plain[own.label]; ok && got != own.value {
			return fmt.Errorf("metadata.labels[%q]: %q is the engine's to set; leave it out", own.label, got)
		}
	}
	if errs := metavalidation.ValidateLabels(plain, field.NewPath("metadata", "labels")); len(errs) > 0 {
		return errs.ToAggregate()
	}
	return nil
}

// complete takes off a child what isn't the handler's to say, and takes the
// hash of the rest.
func (s *settings) complete(d *desiredChild, parent *resource.Resource) {
	delete(d.object, "status")
	spellOut(d.kind.Type, d.object)
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
	d.hash = hashOf(d.object)
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
func hashOf(desired map[string]any) string {
	raw, err := json.Marshal(nullFree(desired))
	if err != nil {
		return "" // can't be: it came from JSON
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}
