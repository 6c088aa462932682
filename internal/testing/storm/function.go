package storm

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/roperator/roperator/internal/recording"
	"github.com/roperator/roperator/resource"
)

// firstDifference says in which field two answers of a handler differ, "" if in none that the engine
// would heed or the scenario hasn't ignored. The order of children doesn't count.
func (w *world) firstDifference(is, ought *recording.Answer) string {
	if reflect.DeepEqual(is, ought) {
		return ""
	}
	have, want := w.childrenOf(is), w.childrenOf(ought)
	both := maps.Clone(have)
	maps.Copy(both, want)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		switch a, b := have[name], want[name]; {
		case a == nil:
			return name + " isn't desired, and was"
		case b == nil:
			return name + " is desired, and wasn't"
		default:
			if text := differing(a, b, name+": "); text != "" {
				return text
			}
		}
	}
	return differing(w.rest(is), w.rest(ought), "")
}

// childrenOf returns the desired children of an answer by what they are called, without those and that
// which the scenario ignores.
func (w *world) childrenOf(a *recording.Answer) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, child := range a.Children {
		object, _ := plainValue(child).(map[string]any)
		t := typeIn(object)
		if slices.Contains(w.scenario.untold, t) {
			continue
		}
		for _, path := range w.scenario.ignored {
			drop(object, path)
		}
		ordered(object, w.builtIn(t))
		name := nameOfObject(object)
		for n := 2; out[name] != nil; n++ {
			name = fmt.Sprintf("%s (%d)", nameOfObject(object), n)
		}
		out[name] = object
	}
	return out
}

// rest returns an answer without its children.
func (w *world) rest(a *recording.Answer) any {
	out := *a
	out.Children = nil
	plain := plainValue(out)
	for _, path := range w.scenario.ignored {
		drop(plain, path)
	}
	ordered(plain, nil)
	return plain
}

func typeIn(object map[string]any) resource.Type {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return resource.Type{APIVersion: version, Kind: kind}
}

func differing(is, ought any, what string) (out string) {
	compare(plainValue(is), plainValue(ought), "", func(path string, have, want any) {
		if out == "" {
			is, was := shown(have, want)
			out = fmt.Sprintf("%s%s is %s, and was %s", what, path, is, was)
		}
	})
	return out
}

// plainValue returns a value as JSON has it.
func plainValue(v any) any {
	if out, err := recording.Plain(v); err == nil {
		return out
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

func nameOfObject(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if namespace, _ := meta["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	kind, _ := object["kind"].(string)
	return kind + " " + name
}
