package testkit

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/resource"
)

// A HotLoopError is returned by Settle for an operator that doesn't come to
// rest.
type HotLoopError struct {
	// Type and Object are what is written again and again. They are empty if
	// passes run without writing anything twice; the name alone is, if it is
	// that which keeps changing.
	Type   resource.Type
	Object types.NamespacedName
	// Path is the field whose value keeps changing from write to write, ""
	// if there is none: then someone else undoes the writes, or the object is
	// deleted and created in turn.
	Path string
	// Values are the values that the field has had, at most 5, as JSON. Data
	// of Secrets isn't shown.
	Values []string
	// Passes and Writes are how many there were Within the time that Settle
	// has waited; Writes are those of Object, or all of them if that is empty.
	Passes uint64
	Writes int
	Within time.Duration
}

// Error returns what is known on one line.
func (e *HotLoopError) Error() string {
	begin := fmt.Sprintf("not settled after %v: ", e.Within)
	if e.Type == (resource.Type{}) {
		return begin + fmt.Sprintf("%d passes, %d writes, of no object twice: a handler that asks for a short Resync, fails, or doesn't return?", e.Passes, e.Writes)
	}
	object := begin + fmt.Sprintf("%d passes, %d writes of %s", e.Passes, e.Writes, describe(e.Type, e.Object))
	if e.Path == "" {
		return object + ": no field changes from one to the next; is it deleted and created in turn, or changed by someone else in between?"
	}
	return fmt.Sprintf("%s, whose %s keeps changing: %s", object, e.Path, strings.Join(e.Values, ", "))
}

const maxValues = 5

// conflictLoop reports what the engine has found.
func (k *Kit) conflictLoop(engine *reconcile.Engine, l reconcile.Loop, begin activity, within time.Duration) *HotLoopError {
	e := &HotLoopError{
		Type: l.Key.Type, Object: l.Key.Object, Path: l.Path, Values: l.Values,
		Passes: engine.Activity().Passes - begin.Passes, Within: within.Round(time.Millisecond),
	}
	for _, w := range k.writes.all()[begin.writes:] {
		if w.Type == l.Key.Type && (w.Key == l.Key.Object || l.Key.Object.Name == "") {
			e.Writes++
		}
	}
	return e
}

// hotLoop says what the operator's writes since begin show.
func (k *Kit) hotLoop(engine *reconcile.Engine, begin activity, within time.Duration) *HotLoopError {
	e := &HotLoopError{Within: within, Passes: engine.Activity().Passes - begin.Passes}
	since := k.writes.all()[begin.writes:]
	e.Writes = len(since)
	of := map[written][]Write{}
	var most written
	for _, w := range since {
		object := written{w.Type, w.Key}
		of[object] = append(of[object], w)
		if len(of[object]) > len(of[most]) {
			most = object
		}
	}
	if len(of[most]) < 2 {
		return e
	}
	e.Type, e.Object, e.Writes = most.Type, most.Key, len(of[most])
	e.Path, e.Values = changing(most.Type, of[most], k.config.AppliedAnnotation())
	return e
}

// A written object is one that there were writes of.
type written struct {
	Type resource.Type
	Key  types.NamespacedName
}

// changing returns the field that differs most often between successive states
// of an object, and its values. The mark is the annotation in which the engine
// keeps account; it changes along with anything else.
func changing(t resource.Type, writes []Write, mark string) (string, []string) {
	changes := map[string]int{}
	values := map[string][]string{}
	add := func(path string, value any) {
		text := formatValue(value)
		if isSecret(t, path) {
			text = secretValue(value)
		}
		if !slices.Contains(values[path], text) && len(values[path]) < maxValues {
			values[path] = append(values[path], text)
		}
	}
	var before map[string]any
	for _, w := range writes {
		if w.Object == nil {
			continue
		}
		now := authored(w.Object, mark)
		if before != nil {
			differing(nil, before, now, func(path string, a, b any) {
				changes[path]++
				add(path, a)
				add(path, b)
			})
		}
		before = now
	}
	most := ""
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		if changes[path] > changes[most] {
			most = path
		}
	}
	return most, values[most]
}

// authored returns the object without what the API server and the engine set
// in it by themselves.
func authored(r *resource.Resource, mark string) map[string]any {
	object := r.Unstructured().Object
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{
			"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
			"deletionGracePeriodSeconds", "managedFields", "selfLink",
		} {
			delete(metadata, field)
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, mark)
		}
	}
	if status, ok := object["status"].(map[string]any); ok {
		delete(status, "observedGeneration")
	}
	return object
}

// differing reports the deepest fields in which a and b differ; lists of
// different length as a whole.
func differing(path fieldpath.Path, a, b any, report func(path string, a, b any)) {
	if reflect.DeepEqual(a, b) {
		return
	}
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		names := slices.Collect(maps.Keys(x))
		for name := range y {
			if _, both := x[name]; !both {
				names = append(names, name)
			}
		}
		for _, name := range names {
			if name != "" { // a path has no way to say it
				differing(append(slices.Clone(path), fieldpath.Field(name)), x[name], y[name], report)
			}
		}
		return
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		for i := range x {
			differing(append(slices.Clone(path), fieldpath.Step{Index: i}), x[i], y[i], report)
		}
		return
	}
	report(path.String(), a, b)
}
