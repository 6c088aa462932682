package storm

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A state is what a run has ended with, without what differs from run to run: by "Kind
// namespace/name".
type state map[string]map[string]any

// stateOf returns the state of a cluster.
func (w *world) stateOf() state {
	objects := map[string]*resource.Resource{}
	for _, k := range w.kinds {
		if k.Type == k8s.Lease || k.Type == fakeapi.Events().Type || slices.Contains(w.scenario.untold, k.Type) {
			continue
		}
		for _, r := range w.server.List(k.Type) {
			if w.hasOutlived(r) {
				continue // it depends on the way whether it was made before its parent's end, and how it was last
			}
			objects[w.plainName(r)] = r
		}
	}
	names := map[string]string{} // of UIDs
	for name, r := range objects {
		names[string(r.UID())] = name
	}
	out := state{}
	for name, r := range objects {
		tree := r.Unstructured().Object
		meta, _ := tree["metadata"].(map[string]any)
		generation := meta["generation"]
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp"} {
			if field == "deletionTimestamp" && meta[field] != nil {
				meta[field] = "a time"
				continue
			}
			delete(meta, field)
		}
		withoutHashes(meta, w.operator.AppliedAnnotation())
		if w.namespace != "default" {
			dropAllocated(objects[name].Type(), tree)
		}
		plain := plainer{names: names, generation: generation, namespace: w.namespace}
		out[name], _ = plain.value(tree, nil).(map[string]any)
		ordered(out[name], w.builtIn(r.Type()))
		for _, path := range w.scenario.ignored {
			drop(out[name], path)
		}
	}
	return out
}

// A plainer takes out of values what differs from run to run.
type plainer struct {
	names      map[string]string // of objects, by UID
	generation any               // of the object
	namespace  string            // of the run
}

// plainName names an object as a run in the namespace default would.
func (w *world) plainName(r *resource.Resource) string {
	key := r.Key()
	if key.Namespace == w.namespace {
		key.Namespace = "default"
	}
	return named(r.Type(), key)
}

// withoutHashes takes the hashes out of the engine's note of what it has applied: they depend on UIDs.
func withoutHashes(meta map[string]any, annotation string) {
	held, _ := meta["annotations"].(map[string]any)
	if text, ok := held[annotation].(string); ok {
		parts := strings.SplitN(text, ":", 5)
		if len(parts) == 5 {
			held[annotation] = parts[0] + ":" + parts[1] + ":…:" + parts[4]
		}
	}
}

// dropAllocated takes out of an object what a real API server and its controllers choose, or
// count.
func dropAllocated(t resource.Type, object map[string]any) {
	drop(object, []string{"metadata", "annotations", "deployment.kubernetes.io/revision"})
	if t == k8s.Service {
		for _, path := range [][]string{{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "healthCheckNodePort"}, {"spec", "ports", "*", "nodePort"}} {
			drop(object, path)
		}
	}
}

func (p plainer) value(v any, path []string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[name] = p.value(value, append(path, name))
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, value := range v {
			out = append(out, p.value(value, path))
		}
		return out
	case string:
		return p.text(v)
	case int64:
		if len(path) > 0 && path[len(path)-1] == "observedGeneration" {
			if reflect.DeepEqual(v, p.generation) {
				return "that of the object"
			}
			return "an earlier one"
		}
	}
	return v
}

var (
	uids  = regexp.MustCompile(`\buid-\d+\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	times = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
)

func (p plainer) text(s string) string {
	if p.namespace != "" && p.namespace != "default" {
		s = strings.ReplaceAll(s, p.namespace, "default")
	}
	if strings.Contains(s, "uid-") || len(s) >= 36 {
		s = uids.ReplaceAllStringFunc(s, func(uid string) string {
			if name, ok := p.names[uid]; ok {
				return "(UID of " + name + ")"
			}
			return "(UID of what is gone)"
		})
	}
	if len(s) >= 20 && strings.Contains(s, ":") {
		s = times.ReplaceAllString(s, "(a time)")
	}
	return s
}

// drop takes a field out of an object.
func drop(v any, path []string) {
	if len(path) == 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			items, isList := v[name].([]any)
			switch {
			case name != path[0] && path[0] != "*":
			case len(path) == 1:
				delete(v, name)
			case isList && len(path) == 2 && path[1] == "*":
				v[name] = items[:0]
			default:
				drop(v[name], path[1:])
			}
		}
	case []any:
		if path[0] == "*" {
			path = path[1:]
		}
		for _, item := range v {
			drop(item, path)
		}
	}
}

// maxDifferences is how many differences are told.
const maxDifferences = 8

// differences says in which fields a state differs from what it ought to be.
func differences(is, ought state) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(merged(is, ought))) {
		have, want := is[name], ought[name]
		switch {
		case want == nil:
			out = append(out, name+" is there, and without faults it isn't")
		case have == nil:
			out = append(out, name+" is missing, and without faults it is there")
		default:
			out = append(out, differingFields(name, have, want)...)
		}
	}
	if len(out) > maxDifferences {
		out = append(out[:maxDifferences], fmt.Sprintf("and %d more differences", len(out)-maxDifferences))
	}
	return out
}

// differingFields says in which fields an object differs. The engine's note of what it has applied
// follows the others, so that it is told only if it is all.
func differingFields(name string, have, want map[string]any) (out []string) {
	var note string
	secret := strings.HasPrefix(name, "Secret ")
	compare(have, want, "", func(path string, have, want any) {
		if secret && (!strings.HasPrefix(path, "metadata") || strings.HasPrefix(path, "metadata.annotations")) {
			have, want = hidden(have), hidden(want)
		}
		is, ought := shown(have, want)
		text := fmt.Sprintf("%s: %s is %s, and without faults %s", name, path, is, ought)
		if strings.HasPrefix(path, "metadata.annotations.") && strings.HasSuffix(path, "/applied") {
			note = text
			return
		}
		out = append(out, text)
	})
	if len(out) == 0 && note != "" {
		return []string{note}
	}
	return out
}

func hidden(v any) any {
	if v == nil {
		return nil
	}
	return "(hidden)"
}

func merged(a, b state) state {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// compare calls differs with each field in which two values differ. An absent value is nil.
func compare(have, want any, path string, differs func(path string, have, want any)) {
	switch h := have.(type) {
	case map[string]any:
		if w, ok := want.(map[string]any); ok {
			both := maps.Clone(h)
			maps.Copy(both, w)
			for _, name := range slices.Sorted(maps.Keys(both)) {
				compare(h[name], w[name], strings.TrimPrefix(path+"."+name, "."), differs)
			}
			return
		}
	case []any:
		if w, ok := want.([]any); ok && len(w) == len(h) {
			for i := range h {
				compare(h[i], w[i], fmt.Sprintf("%s[%d]", path, i), differs)
			}
			return
		}
	}
	if !reflect.DeepEqual(have, want) {
		differs(path, have, want)
	}
}

// maxShown is how many bytes of a value are shown.
const maxShown = 120

// shown returns two values for people to read. Of long ones it leaves out what they begin with alike.
func shown(is, ought any) (string, string) {
	a, b := encoded(is), encoded(ought)
	if len(a) <= maxShown && len(b) <= maxShown {
		return a, b
	}
	alike := 0
	for alike < min(len(a), len(b)) && a[alike] == b[alike] {
		alike++
	}
	from := max(0, alike-maxShown/4)
	return cut(a, from), cut(b, from)
}

func cut(text string, from int) string {
	if from > 0 {
		text = "…" + strings.ToValidUTF8(text[min(from, len(text)):], "")
	}
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}

func encoded(v any) string {
	if v == nil {
		return "absent"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
