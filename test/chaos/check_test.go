package chaos

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// A violation says which promise was broken, and by what.
type violation struct{ kind, text string }

func (v violation) String() string { return v.kind + ": " + v.text }

// The kinds of violations.
const (
	missing     = "missing"     // a child isn't there
	different   = "different"   // a child isn't as the handler wants it
	unwanted    = "unwanted"    // a child of a living parent that the handler doesn't want: a duplicate, say
	orphan      = "orphan"      // a child of nobody
	foreignKind = "foreign"     // someone else's object was touched
	stuck       = "stuck"       // a parent that doesn't go, or isn't guarded by a finalizer
	status      = "status"      // a parent's status isn't of its spec and children
	unfinalized = "unfinalized" // a parent has gone without
	leaseless   = "leaseless"   // a write without the lease
	noise       = "noise"       // a write though everything is done
	harness     = "harness"     // the suite itself has failed
)

// A state is what there is in the namespace.
type state struct {
	parents  []unstructured.Unstructured
	children []unstructured.Unstructured // and whatever else is of their kinds
}

// look asks the API server itself.
func (p *people) look(ctx context.Context) (*state, error) {
	s := &state{}
	list, err := p.of(parents()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	s.parents = list.Items
	for _, r := range childResources() {
		list, err := p.of(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		s.children = append(s.children, list.Items...)
	}
	return s, nil
}

func id(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }

// check compares what there is with what the parents' specs ask for. planted
// are the foreign objects.
func (s *state) check(planted map[types.UID]string) []violation {
	c := &checker{living: map[types.UID]*unstructured.Unstructured{}, owned: map[types.UID][]*unstructured.Unstructured{}}
	for i := range s.parents {
		c.living[s.parents[i].GetUID()] = &s.parents[i]
	}
	left := maps.Clone(planted)
	for i := range s.children {
		o := &s.children[i]
		if version, ok := left[o.GetUID()]; ok {
			delete(left, o.GetUID())
			if o.GetResourceVersion() != version {
				c.violated(foreignKind, "%s was changed", id(o))
			}
			continue
		}
		c.sort(o)
	}
	for uid := range left {
		c.violated(foreignKind, "%s was deleted", uid)
	}
	for i := range s.parents {
		c.parent(&s.parents[i])
	}
	return c.violations
}

// A checker gathers the violations of a state.
type checker struct {
	living     map[types.UID]*unstructured.Unstructured   // parents
	owned      map[types.UID][]*unstructured.Unstructured // parent UID -> children
	violations []violation
}

func (c *checker) violated(kind, format string, args ...any) {
	c.violations = append(c.violations, violation{kind, fmt.Sprintf(format, args...)})
}

// sort finds out whose child an object is.
func (c *checker) sort(o *unstructured.Unstructured) {
	controller := metav1.GetControllerOf(o)
	switch {
	case controller == nil:
		c.violated(orphan, "%s has no controller", id(o))
	case c.living[controller.UID] == nil:
		c.violated(orphan, "%s is a child of %s, %s, which has gone", id(o), controller.Name, controller.UID)
	default:
		c.owned[controller.UID] = append(c.owned[controller.UID], o)
	}
}

func (c *checker) parent(p *unstructured.Unstructured) {
	if p.GetDeletionTimestamp() != nil {
		c.violated(stuck, "%s is still being deleted, with finalizers %q", id(p), p.GetFinalizers())
		return
	}
	if !slices.Contains(p.GetFinalizers(), finalizer) {
		c.violated(stuck, "%s has no finalizer of the operator", id(p))
	}
	value, _, _ := unstructured.NestedString(p.Object, "spec", "value")
	port, _, _ := unstructured.NestedInt64(p.Object, "spec", "port")
	name := p.GetName()
	want := map[string]func(*unstructured.Unstructured) any{
		"ConfigMap " + name + "-config": func(o *unstructured.Unstructured) any {
			return unlike(o, map[string]any{"value": value, value: "set"}, "data")
		},
		"Secret " + name + "-" + value: func(o *unstructured.Unstructured) any {
			return unlike(o, map[string]any{"key": base64.StdEncoding.EncodeToString([]byte(value + ":" + fmt.Sprint(port)))}, "data")
		},
		"Service " + name: func(o *unstructured.Unstructured) any {
			ports, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
			if len(ports) != 1 {
				return ports
			}
			if first, _ := ports[0].(map[string]any); first["port"] != port || first["name"] != "main" {
				return ports
			}
			return unlike(o, map[string]any{"app": name, "value": value}, "spec", "selector")
		},
	}
	for _, o := range c.owned[p.GetUID()] {
		differs := want[id(o)]
		if differs == nil {
			c.violated(unwanted, "%s of %s", id(o), id(p))
			continue
		}
		delete(want, id(o))
		c.child(o, p, differs(o))
	}
	for _, absent := range slices.Sorted(maps.Keys(want)) {
		c.violated(missing, "%s of %s", absent, id(p))
	}
	got, _, _ := unstructured.NestedMap(p.Object, "status")
	if expected := map[string]any{"value": value, "children": int64(3), "observedGeneration": p.GetGeneration()}; !reflect.DeepEqual(got, expected) {
		c.violated(status, "%s has %v, not %v", id(p), got, expected)
	}
}

func (c *checker) child(o, p *unstructured.Unstructured, differs any) {
	if differs != nil && !reflect.ValueOf(differs).IsZero() {
		c.violated(different, "%s has %v", id(o), differs)
	}
	if o.GetDeletionTimestamp() != nil {
		c.violated(stuck, "%s is still being deleted, with finalizers %q", id(o), o.GetFinalizers())
	}
	for name, value := range map[string]string{
		"app": p.GetName(), "roperator.com/operator": operatorName, "roperator.com/parent-uid": string(p.GetUID()),
	} {
		if got := o.GetLabels()[name]; got != value {
			c.violated(different, "%s has the label %s=%q, not %q", id(o), name, got, value)
		}
	}
	if n := len(o.GetOwnerReferences()); n != 1 {
		c.violated(different, "%s has %d owner references", id(o), n)
	}
}

// unlike returns nil if the field is as expected, else what it is.
func unlike(o *unstructured.Unstructured, expected map[string]any, path ...string) any {
	got, _, _ := unstructured.NestedMap(o.Object, path...)
	if reflect.DeepEqual(got, expected) {
		return nil
	}
	return fmt.Sprintf("%s %v, not %v", strings.Join(path, "."), got, expected)
}
