package storm

import (
	"bytes"
	"container/list"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

// The types of this package aren't copied, as they are in an internal folder. So the structs of
// these tests have no name: a type without a name belongs to no module.

// copierOf returns a copier that works for a module.
func copierOf(module string, shared ...any) *copier {
	c := newCopier(shared...)
	c.module = module
	return c
}

// A copied is a case: how a value is made, always the same, and how it is changed.
type copied struct {
	reason string
	value  func() any
	change func(v any)
}

func TestCopyIsApart(t *testing.T) {
	type (
		pointers = struct{ p **int }
		hidden   = struct{ inner struct{ seen map[string]int } }
		arrays   = struct{ both [2]map[string]int }
		locked   = struct {
			mu   sync.Mutex
			seen map[string]bool
		}
	)
	holdsApart(t, map[string]copied{
		"Pointers": {
			"each pointer leads to a copy",
			func() any { n := 1; p := &n; return &pointers{&p} },
			func(v any) { **v.(*pointers).p = 2 },
		},
		"Map":        {"a map that may be written to", func() any { return map[string]int{"a": 1} }, func(v any) { v.(map[string]int)["b"] = 2 }},
		"MapValues":  {"values are copied", func() any { return map[string][]int{"a": {1}} }, func(v any) { v.(map[string][]int)["a"][0] = 2 }},
		"Slice":      {"its array is copied", func() any { return []int{1, 2} }, func(v any) { v.([]int)[1] = 3 }},
		"SliceItems": {"items are copied", func() any { return []map[string]int{{"a": 1}} }, func(v any) { v.([]map[string]int)[0]["a"] = 2 }},
		"Array": {
			"each item is copied",
			func() any { return &arrays{[2]map[string]int{{"a": 1}, {"b": 1}}} },
			func(v any) { v.(*arrays).both[1]["b"] = 2 },
		},
		"Unexported": {
			"a handler's memory is in fields that aren't exported",
			func() any { h := &hidden{}; h.inner.seen = map[string]int{"a": 1}; return h },
			func(v any) { v.(*hidden).inner.seen["a"] = 2 },
		},
		"ValueInInterface": {
			"what is in an interface is copied",
			func() any { return []any{hidden{struct{ seen map[string]int }{map[string]int{"a": 1}}}} },
			func(v any) { v.([]any)[0].(hidden).inner.seen["a"] = 2 },
		},
		"PointerInInterface": {
			"a pointer in an interface, too",
			func() any { n := 1; return map[string]any{"a": &n} },
			func(v any) { *v.(map[string]any)["a"].(*int) = 2 },
		},
		"Mutex": {
			"the usual memory of a handler",
			func() any { return &locked{seen: map[string]bool{"a": true}} },
			func(v any) { l := v.(*locked); l.mu.Lock(); l.seen["b"] = true; l.mu.Unlock() },
		},
	})
}

func TestCopyOfKnownModules(t *testing.T) {
	holdsApart(t, map[string]copied{
		"Meta": {
			"types of apimachinery are copied",
			func() any { return &metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "x"}} },
			func(v any) { v.(*metav1.ObjectMeta).Labels["a"] = "y" },
		},
		"Unstructured": {
			"all of a tree is",
			func() any {
				return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"list": []any{int64(1)}}}}
			},
			func(v any) {
				v.(*unstructured.Unstructured).Object["spec"].(map[string]any)["list"].([]any)[0] = int64(2)
			},
		},
		"API": {
			"types of api are",
			func() any { n := int32(1); return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &n}} },
			func(v any) { *v.(*appsv1.Deployment).Spec.Replicas = 2 },
		},
		"Handler": {
			"handlers that this library makes hold users' values",
			func() any { return &handler.SyncResponse{Children: []any{map[string]any{"a": "x"}}} },
			func(v any) { v.(*handler.SyncResponse).Children[0].(map[string]any)["a"] = "y" },
		},
		"Module": {
			"types of the module under test are",
			func() any { return &config.Operator{Namespaces: []string{"a"}} },
			func(v any) { v.(*config.Operator).Namespaces[0] = "b" },
		},
	})
}

// holdsApart changes copies, and then what copies were made of: the other one stays as it was.
func holdsApart(t *testing.T, cases map[string]copied) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			original := tc.value()
			result := copyOf(copierOf(ownModule), original)
			require.Equal(t, tc.value(), result, tc.reason)
			tc.change(result)
			require.NotEqual(t, tc.value(), result, "the case must change something")
			require.Equal(t, tc.value(), original, "%s: the copy was changed", tc.reason)

			result = copyOf(copierOf(ownModule), original)
			tc.change(original)
			require.Equal(t, tc.value(), result, "%s: the original was changed", tc.reason)
		})
	}
}

func TestCopyOfNil(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		value  any
	}{
		"Interface":    {"there is nothing to copy", nil},
		"Pointer":      {"a typed nil keeps its type", (*int)(nil)},
		"Map":          {"a nil map doesn't become an empty one", map[string]int(nil)},
		"Slice":        {"nor does a slice", []int(nil)},
		"EmptySlice":   {"an empty one doesn't become nil", []int{}},
		"EmptyMap":     {"nor does a map", map[string]int{}},
		"Func":         {"a handler may have none", (func())(nil)},
		"WithinStruct": {"in fields, too", struct{ v any }{(*int)(nil)}},
		"WithinMap":    {"in maps, too", map[string]any{"none": nil, "typed": (*int)(nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			result := copyOf(copierOf(ownModule), tc.value)
			if name == "Func" {
				require.Nil(t, result, tc.reason) // functions can't be compared
				return
			}
			require.Equal(t, tc.value, result, tc.reason)
		})
	}
}

func TestCopyShares(t *testing.T) {
	given := &struct{ seen map[string]int }{map[string]int{}}
	for name, tc := range map[string]struct {
		reason, module string
		value          any
		shared         bool
	}{
		"Given":       {"an outside system is shared", ownModule, given, true},
		"NotGiven":    {"another pointer of its type isn't", ownModule, &struct{ seen map[string]int }{}, false},
		"Channel":     {"somebody is at its other end", ownModule, make(chan int, 1), true},
		"Library":     {"what a type of the standard library has is its own business", ownModule, http.DefaultClient, true},
		"Data":        {"but for those that hold data", ownModule, bytes.NewBufferString("a"), false},
		"Another":     {"a type of another module, too", ownModule, &logr.Logger{}, true},
		"NotTheirs":   {"the library's types aren't the user's", "example.com/operator", &config.Operator{}, true},
		"Theirs":      {"with the library itself under test they are", ownModule, &config.Operator{}, false},
		"Resource":    {"a snapshot is read only", ownModule, &resource.Resource{}, true},
		"Handler":     {"handlers are copied whatever is under test", "example.com/operator", &handler.SyncResponse{}, false},
		"OwnModule":   {"each type of the module is", "github.com/go-logr/logr", &logr.Logger{}, false},
		"Beginning":   {"a module's name isn't a mere beginning of a path", "github.com/go-logr/log", &logr.Logger{}, true},
		"NoBuildInfo": {"a program may not know its module", "", &config.Operator{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			result := copyOf(copierOf(tc.module, given, "not a pointer"), []any{tc.value})[0]
			if tc.shared {
				require.Equal(t, reflect.ValueOf(tc.value).UnsafePointer(), reflect.ValueOf(result).UnsafePointer(), tc.reason)
			} else {
				require.NotEqual(t, reflect.ValueOf(tc.value).UnsafePointer(), reflect.ValueOf(result).UnsafePointer(), tc.reason)
			}
		})
	}
}

func TestCopySharesFuncs(t *testing.T) {
	n := 0
	h := &struct{ add func() }{func() { n++ }}
	copyOf(copierOf(ownModule), h).add()
	require.Equal(t, 1, n, "the variables of a function are shared")
}

func TestNewCopierKnowsItsModule(t *testing.T) {
	require.Equal(t, ownModule, newCopier().module, "a test's program is built in the module under test")
}

func TestCopyKeepsWhatIsOne(t *testing.T) {
	type fields = struct {
		p, q       *int
		m, n       map[string]int
		s, t       []int
		a, b       any
		full, part []int
	}
	one, list, table, array := 1, []int{1, 2}, map[string]int{"a": 1}, []int{1, 2, 3}
	v := &fields{&one, &one, table, table, list, list, &one, table, array, array[:2]}
	result := copyOf(copierOf(ownModule), v)
	require.Equal(t, v, result, "the values stay")

	*result.p = 7
	result.m["a"] = 8
	result.s[0] = 9
	require.Equal(t, 7, *result.q, "two fields with one pointer keep being one")
	require.Equal(t, 8, result.n["a"], "a map is one, too")
	require.Equal(t, 9, result.t[0], "and the array of two slices")
	require.Same(t, result.p, result.a, "an interface may hold the pointer")
	require.Equal(t, result.m, result.b, "or the map")
	result.full[2] = 9
	require.Equal(t, []any{1, 1, 1, 3}, []any{one, list[0], table["a"], array[2]}, "the original's stay")
}

func TestCopyOfFirstField(t *testing.T) {
	type inner = struct{ n int }
	v := &struct {
		first *int
		whole *inner
	}{}
	v.whole = &inner{1}
	v.first = &v.whole.n // the address of both is the same
	result := copyOf(copierOf(ownModule), v)
	require.Equal(t, 1, *result.first, "two types at one address aren't taken for each other")
	require.Equal(t, &inner{1}, result.whole)
	require.NotSame(t, v.first, result.first)
}

func TestCopyOfCycles(t *testing.T) {
	type node = struct{ next any }
	a := &node{}
	a.next = &node{a}
	result := copyOf(copierOf(ownModule), a)
	require.NotSame(t, a, result, "the first is copied")
	require.NotSame(t, a.next, result.next, "the second is")
	require.Same(t, result, result.next.(*node).next, "pointers lead round in the copy")

	m := map[string]any{}
	m["self"] = m
	table := copyOf(copierOf(ownModule), m)
	delete(m, "self")
	delete(table["self"].(map[string]any), "self")
	require.Empty(t, table, "a map that has itself")

	s := []any{nil, 1}
	s[0] = s
	list := copyOf(copierOf(ownModule), s)
	s[1] = 2
	require.Equal(t, 1, list[1], "a list that has itself is copied")
	list[1] = 3
	require.Equal(t, 3, list[0].([]any)[1], "and has itself again")
}

func TestCopyOfCapacity(t *testing.T) {
	original := make([]int, 1, 4)
	result := copyOf(copierOf(ownModule), original)
	require.Equal(t, 4, cap(result), "what is appended needs no other array")
	_ = append(result, 9)
	require.Equal(t, 0, original[:2][1], "what is appended to the copy isn't in the original")
}

func TestCopyOfSyncMap(t *testing.T) {
	type memory = struct{ seen sync.Map }
	h := &memory{}
	h.seen.Store("a", map[string]int{"n": 1})
	result := copyOf(copierOf(ownModule), h)

	inside, ok := result.seen.Load("a")
	require.True(t, ok, "what is in it is in the copy")
	inside.(map[string]int)["n"] = 2
	result.seen.Store("b", 1)
	h.seen.Store("c", 1)

	original, _ := h.seen.Load("a")
	require.Equal(t, map[string]int{"n": 1}, original, "its values are copied")
	_, ok = h.seen.Load("b")
	require.False(t, ok, "what is stored in the copy isn't in the original")
	_, ok = result.seen.Load("c")
	require.False(t, ok, "nor the other way round")
}

func TestCopyOfParts(t *testing.T) {
	type item = struct{ n int }
	type memory = struct {
		byName  map[string]*item
		current *item
		items   []item
		tail    []item
		field   *int
		inside  struct{ n int }
		any     any
	}
	h := &memory{items: []item{{1}, {2}, {3}}}
	h.byName, h.current, h.tail = map[string]*item{"b": &h.items[1]}, &h.items[2], h.items[1:]
	h.field, h.any = &h.inside.n, &h.items[0]
	result := copyOf(copierOf(ownModule), h)
	require.Equal(t, h, result, "the values stay")

	require.Same(t, &result.items[1], result.byName["b"], "a map's pointer leads into the copied list, though the map comes first")
	require.Same(t, &result.items[2], result.current, "a field's, too")
	require.Same(t, &result.items[0], result.any, "an interface's, too")
	require.Same(t, &result.items[1], &result.tail[0], "slices of one array have one array again")
	require.Same(t, &result.inside.n, result.field, "a pointer may lead to a field beside it")
	result.items[1].n, *result.field = 8, 9
	require.Equal(t, []any{2, 0}, []any{h.items[1].n, h.inside.n}, "and not to the original")

	mutual := make([]any, 2)
	mutual[0], mutual[1] = mutual[:2], mutual[:1]
	again := copyOf(copierOf(ownModule), mutual)
	again[1] = 1
	require.Equal(t, 1, again[0].([]any)[1], "slices of two lengths that have each other")
}

func TestCopyOfData(t *testing.T) {
	type memory = struct {
		buffer  bytes.Buffer
		builder strings.Builder
		queue   list.List
		table   *sync.Map
		pointer atomic.Pointer[map[string]int]
		value   atomic.Value
		empty   atomic.Value
	}
	h := &memory{table: &sync.Map{}}
	h.buffer.Grow(64)
	h.buffer.WriteString("ab")
	h.builder.WriteString("ab")
	h.queue.PushBack(1)
	h.table.Store("a", 1)
	h.pointer.Store(&map[string]int{"a": 1})
	h.value.Store(map[string]int{"a": 1})
	result := copyOf(copierOf(ownModule), h)

	h.buffer.WriteString("xy")
	result.buffer.WriteString("cd")
	result.builder.WriteString("cd")
	result.queue.PushBack(2)
	result.table.Store("b", 2)
	(*result.pointer.Load())["a"] = 2
	result.value.Load().(map[string]int)["a"] = 2
	result.empty.Store(1)

	require.Equal(t, []string{"abcd", "abcd"}, []string{result.buffer.String(), result.builder.String()}, "what is written later is the copy's own")
	require.Equal(t, []int{1, 2}, []int{h.queue.Len(), result.queue.Len()}, "lists are apart")
	require.Equal(t, 2, result.queue.Front().Next().Value)
	require.Nil(t, h.queue.Front().Next())
	_, found := h.table.Load("b")
	require.False(t, found, "a pointer to a map of package sync leads to a copy")
	require.Equal(t, map[string]int{"a": 1}, *h.pointer.Load())
	require.Equal(t, map[string]int{"a": 1}, h.value.Load())
	require.Nil(t, h.empty.Load())
}

func TestCopyOfCond(t *testing.T) {
	type memory = struct {
		mu   sync.Mutex
		cond sync.Cond
	}
	h := &memory{}
	h.cond.L = &h.mu
	h.cond.Broadcast()
	result := copyOf(copierOf(ownModule), h)
	result.cond.Broadcast() // which panics in a mere copy
	require.Same(t, &result.mu, result.cond.L, "its lock is that of the copy")
}

func TestCopySharesByType(t *testing.T) {
	type memory = struct {
		system struct{ n int }
		seen   map[string]int
	}
	h := &memory{seen: map[string]int{}}
	result := copyOf(copierOf(ownModule, &h.system), h)
	result.seen["a"] = 1
	require.Empty(t, h.seen, "a struct isn't shared since its first field is")
}
