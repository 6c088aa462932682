package apischema_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/roperator/roperator/internal/apischema"
	"github.com/roperator/roperator/internal/gotype"
	"github.com/roperator/roperator/internal/testing/budget"
)

// A mutation is a valid object of which one value isn't what it was.
type mutation struct {
	object map[string]any
	what   string
}

// mutationsOf returns what somebody may get wrong in an object: each of its names and values,
// but for those of apiVersion, kind and the object's own name.
func mutationsOf(object map[string]any) []mutation {
	var out []mutation
	add := func(what string, at []any, change func(parent any, key any)) {
		copied := runtime.DeepCopyJSON(object)
		parent := any(copied)
		for _, step := range at[:len(at)-1] {
			switch step := step.(type) {
			case string:
				parent = parent.(map[string]any)[step]
			case int:
				parent = parent.([]any)[step]
			}
		}
		change(parent, at[len(at)-1])
		out = append(out, mutation{copied, fmt.Sprintf("%v: %s", at, what)})
	}
	set := func(value any) func(parent, key any) {
		return func(parent, key any) {
			switch key := key.(type) {
			case string:
				parent.(map[string]any)[key] = value
			case int:
				parent.([]any)[key] = value
			}
		}
	}
	var visit func(v any, at []any)
	visit = func(v any, at []any) {
		if len(at) > 0 {
			for _, value := range valuesInstead(v) {
				add(fmt.Sprintf("%#v", value), at, set(value))
			}
			if name, ok := at[len(at)-1].(string); ok {
				add("left out", at, func(parent, _ any) { delete(parent.(map[string]any), name) })
				for _, typo := range typosOf(name) {
					add("as "+typo, at, func(parent, _ any) {
						parent.(map[string]any)[typo] = v
						delete(parent.(map[string]any), name)
					})
				}
			}
		}
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if len(at) == 0 && (key == "apiVersion" || key == "kind") || len(at) == 1 && at[0] == "metadata" && (key == "name" || key == "namespace") {
					continue
				}
				visit(v[key], append(slices.Clip(at), key))
			}
			add("with extra", append(slices.Clip(at), "extra"), set("more"))
		case []any:
			for i, item := range v {
				visit(item, append(slices.Clip(at), i))
			}
		}
	}
	visit(object, nil)
	return slices.DeleteFunc(out, func(m mutation) bool { return m.object["metadata"] == nil || !named(m.object) })
}

// named says whether an object still has a name.
func named(object map[string]any) bool {
	metadata, ok := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return ok && name != ""
}

// valuesInstead returns values of all types, empty ones among them.
func valuesInstead(v any) []any {
	values := []any{nil, "", "Sometimes", "7", int64(0), int64(7), int64(-1), int64(1) << 40, 1.5, true, []any{}, []any{"text"}, []any{nil}, map[string]any{}, map[string]any{"a": "b"}, map[string]any{"a": nil}}
	if _, ok := v.([]any); ok {
		return append(values, []any{map[string]any{}})
	}
	return values
}

// typosOf returns a name with two letters the other way about, one twice, in another case, and
// without the last.
func typosOf(name string) []string {
	if len(name) < 3 {
		return []string{name + "s"}
	}
	upper := []byte(name)
	upper[0] ^= 0x20
	return []string{name[:1] + name[2:3] + name[1:2] + name[3:], name[:2] + name[1:], string(upper), name[:len(name)-1]}
}

// additionsTo returns what somebody may add to an object: each field that its Go type has and
// it hasn't, with values of all types, and one that fills all of the field's own fields.
func additionsTo(t *testing.T, object map[string]any) []mutation {
	t.Helper()
	typed, err := scheme.Scheme.New(typeOf(object).GroupVersionKind())
	if err != nil {
		return nil
	}
	var out []mutation
	var visit func(typ reflect.Type, v any, at []any)
	visit = func(typ reflect.Type, v any, at []any) {
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if gotype.DecodesItself(typ) {
			return
		}
		switch v := v.(type) {
		case map[string]any:
			if typ.Kind() != reflect.Struct {
				return
			}
			fields := gotype.Fields(typ)
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				if len(at) == 0 && (name == "status" || name == "metadata") {
					continue
				}
				if has, ok := v[name]; ok {
					visit(fields[name], has, append(slices.Clip(at), name))
					continue
				}
				for _, value := range append(valuesInstead([]any{}), filled(fields[name], 0), filled(fields[name], 2)) {
					copied := runtime.DeepCopyJSON(object)
					at2 := any(copied)
					for _, step := range at {
						switch step := step.(type) {
						case string:
							at2 = at2.(map[string]any)[step]
						case int:
							at2 = at2.([]any)[step]
						}
					}
					at2.(map[string]any)[name] = runtime.DeepCopyJSONValue(value)
					out = append(out, mutation{copied, fmt.Sprintf("%v.%s added: %v", at, name, value)})
				}
			}
		case []any:
			if typ.Kind() == reflect.Slice {
				for i, item := range v {
					visit(typ.Elem(), item, append(slices.Clip(at), i))
				}
			}
		}
	}
	visit(reflect.TypeOf(typed), object, nil)
	return out
}

// filled returns a value of a type, with all fields to a depth.
func filled(typ reflect.Type, depth int) any {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if gotype.DecodesItself(typ) {
		return map[string]any{"Quantity": "1", "IntOrString": int64(1), "Time": "2026-01-01T00:00:00Z", "MicroTime": "2026-01-01T00:00:00.000000Z", "Duration": "1s"}[typ.Name()]
	}
	switch typ.Kind() {
	case reflect.String:
		return "a"
	case reflect.Bool:
		return true
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return "eA=="
		}
		return []any{filled(typ.Elem(), depth)}
	case reflect.Map:
		return map[string]any{"a": filled(typ.Elem(), depth)}
	case reflect.Struct:
		out := map[string]any{}
		if depth > 0 {
			for name, field := range gotype.Fields(typ) {
				out[name] = filled(field, depth-1)
			}
		}
		return out
	}
	return int64(1)
}

// agreesAboutMutations: an object with a mistake has problems if an API server says so for its schema,
// and only if it says so at all.
func (s *server) agreesAboutMutations() {
	var all []mutation
	for _, object := range validObjects(s.t) {
		for _, m := range append(mutationsOf(object), additionsTo(s.t, object)...) {
			m.what = nameOf(object) + " " + m.what
			if s.checker.Knows(typeOf(object)) {
				all = append(all, m)
			}
		}
	}
	counts := s.agree(all)
	require.Greater(s.t, counts[foundByBoth], counts[foundByServer])
}

const (
	foundByBoth   = "found by both"
	foundByServer = "found by the server's validation alone"
	newerField    = "a field of the Go types that is newer than the server"
)

// agree fails the test where the Checker is wrong, and counts the verdicts. ROPERATOR_MUTATIONS
// is how many mutations are tried, 0: all.
func (s *server) agree(all []mutation) map[string]int {
	s.t.Helper()
	total := len(all)
	if n := int(budget.Count(s.t, "ROPERATOR_MUTATIONS", 2000)); n > 0 && n < total {
		random := rand.New(rand.NewPCG(1, 2))
		random.Shuffle(total, func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:n]
	}
	var mu sync.Mutex
	counts := map[string]int{}
	var wrong []string
	parallel(len(all), func(i int) {
		verdict, mistaken := s.judge(all[i].object)
		mu.Lock()
		defer mu.Unlock()
		if mistaken {
			wrong = append(wrong, short(all[i].what, 200)+": "+short(verdict, 600))
			return
		}
		counts[verdict]++
	})
	slices.Sort(wrong)
	s.t.Logf("%d of %d mutations: %v", len(all), total, counts)
	require.Empty(s.t, strings.Join(wrong[:min(len(wrong), 60)], "\n"), "%d in all", len(wrong))
	return counts
}

func short(text string, n int) string { return text[:min(len(text), n)] }

// judge compares the server's opinion of an object with the Checker's.
func (s *server) judge(object map[string]any) (verdict string, mistaken bool) {
	code, text := s.create(object)
	problems := s.checker.Check(object, true)
	undecodable := slices.ContainsFunc(problems, isOfDecoding)
	switch code {
	case http.StatusCreated:
		return fmt.Sprintf("the server accepts it, problems: %v", problems), len(problems) > 0
	case http.StatusBadRequest:
		if !undecodable && strings.Contains(text, "strict decoding error: unknown field") {
			return newerField, false
		}
		return foundByBoth, !undecodable
	case http.StatusUnprocessableEntity:
		if undecodable {
			return fmt.Sprintf("the server decodes it, problems: %v", problems), true
		}
		for _, p := range problems {
			if !saidOf(p.Path, text) {
				return fmt.Sprintf("%s isn't said by the server: %s", p, text), true
			}
		}
		if len(problems) == 0 {
			return foundByServer, false
		}
		return foundByBoth, false
	}
	return fmt.Sprintf("answered with %d", code), len(problems) > 0 && code != http.StatusForbidden
}

// isOfDecoding says whether a problem is that an object can't be decoded.
func isOfDecoding(p apischema.Problem) bool {
	return p.Message != "must be set" && !strings.Contains(p.Message, "isn't one of")
}

// saidOf says whether a server's text names a field, or the one that has it, or refuses a field
// around these as a whole. The server doesn't heed the case of names.
func saidOf(path, text string) bool {
	text = strings.ToLower(text)
	fields := strings.Split(strings.ToLower(path), ".")
	for i, field := range fields {
		name, _, _ := strings.Cut(field, "[")
		if i >= len(fields)-2 && strings.Contains(text, name) || strings.Contains(text, name+": ") || strings.Contains(text, field+": ") {
			return true
		}
	}
	return false
}
