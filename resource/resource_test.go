package resource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// podJSON is a Pod as an API server sends it.
const podJSON = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"default","uid":"a-b-c",` +
	`"resourceVersion":"42","generation":7,"creationTimestamp":"2026-01-02T03:04:05Z",` +
	`"deletionTimestamp":"2026-01-02T04:00:00Z","deletionGracePeriodSeconds":30,` +
	`"labels":{"app":"web","example.com/tier":"gold"},` +
	`"annotations":{"note":"say \"hi\" \u00e9","plain":"x"},` +
	`"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Site","name":"s","uid":"p-1","controller":true,"blockOwnerDeletion":false},` +
	`{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"p-2"}],` +
	`"finalizers":["example.com/a","example.com/b"],` +
	`"managedFields":[{"manager":"kubectl","fieldsV1":{"f:spec":{}}}]},` +
	`"spec":{"containers":[{"name":"app","image":"nginx:1","env":[{"name":"A","value":"<&>"}]}],"terminationGracePeriodSeconds":30},` +
	`"status":{"phase":"Running"}}` + "\n"

func mustNew(tb testing.TB, obj any) *Resource {
	tb.Helper()
	r, err := New(obj)
	require.NoError(tb, err)
	return r
}

func TestNewMetadata(t *testing.T) {
	r := mustNew(t, []byte(podJSON))
	yes, no := true, false

	require.Equal(t, Type{APIVersion: "v1", Kind: "Pod"}, r.Type())
	require.Equal(t, types.NamespacedName{Namespace: "default", Name: "web"}, r.Key())
	require.Equal(t, "web", r.Name())
	require.Equal(t, "default", r.Namespace())
	require.Equal(t, types.UID("a-b-c"), r.UID())
	require.Equal(t, "42", r.ResourceVersion())
	require.Equal(t, int64(7), r.Generation())
	require.Equal(t, map[string]string{"app": "web", "example.com/tier": "gold"}, r.Labels())
	require.Equal(t, map[string]string{"note": `say "hi" é`, "plain": "x"}, r.Annotations())
	require.Equal(t, []string{"example.com/a", "example.com/b"}, r.Finalizers())
	require.Equal(t, []metav1.OwnerReference{
		{APIVersion: "example.com/v1", Kind: "Site", Name: "s", UID: "p-1", Controller: &yes, BlockOwnerDeletion: &no},
		{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "p-2"},
	}, r.OwnerReferences())
	require.True(t, r.IsDeleting())
	require.True(t, r.DeletionTimestamp().Equal(&metav1.Time{Time: time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)}))

	value, ok := r.Label("example.com/tier")
	require.True(t, ok)
	require.Equal(t, "gold", value)
	_, ok = r.Label("tier")
	require.False(t, ok)
	value, ok = r.Annotation("note")
	require.True(t, ok)
	require.Equal(t, `say "hi" é`, value)
	_, ok = r.Annotation("absent")
	require.False(t, ok)
}

func TestIsControlledBy(t *testing.T) {
	const site = `{"apiVersion":"example.com/v1","kind":"Site","name":"s","uid":"p-1","controller":true}`
	sites := schema.GroupKind{Group: "example.com", Kind: "Site"}
	for name, tc := range map[string]struct {
		reason string
		owners string
		want   bool
	}{
		"Controller":     {"the UID and the kind are those of the controller", `[` + site + `]`, true},
		"Second":         {"an owner that comes first may be no controller", `[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"p-2"},` + site + `]`, true},
		"AnotherVersion": {"an object is the same in every version", `[{"apiVersion":"example.com/v2","kind":"Site","name":"s","uid":"p-1","controller":true}]`, true},
		"AnotherGroup":   {"a kind of another group is another kind", `[{"apiVersion":"example.org/v1","kind":"Site","name":"s","uid":"p-1","controller":true}]`, false},
		"AnotherKind":    {"whoever writes an object may name any kind", `[{"apiVersion":"example.com/v1","kind":"Page","name":"s","uid":"p-1","controller":true}]`, false},
		"AnotherUID":     {"a successor of the same name is another object", `[{"apiVersion":"example.com/v1","kind":"Site","name":"s","uid":"p-2","controller":true}]`, false},
		"NoController":   {"an owner need not be the controller", `[{"apiVersion":"example.com/v1","kind":"Site","name":"s","uid":"p-1","controller":false}]`, false},
		"Null":           {"a null is no owner", `[null]`, false},
		"None":           {"an object may have no owner", `[]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustNew(t, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","uid":"c-1","resourceVersion":"1","ownerReferences":`+tc.owners+`}}`))
			require.Equal(t, tc.want, r.IsControlledBy(sites, "p-1"), tc.reason)
			require.Zero(t, testing.AllocsPerRun(10, func() { r.IsControlledBy(sites, "p-1") }))
		})
	}
}

// What a Resource returns is the caller's own.
func TestImmutable(t *testing.T) {
	source := []byte(podJSON)
	r := mustNew(t, source)
	before, err := r.MarshalJSON()
	require.NoError(t, err)

	clear(source)
	r.Labels()["app"] = "changed"
	r.Annotations()["note"] = "changed"
	r.Finalizers()[0] = "changed"
	*r.OwnerReferences()[0].Controller = false
	r.DeletionTimestamp().Time = time.Time{}
	r.Unstructured().SetName("changed")
	returned, err := r.MarshalJSON()
	require.NoError(t, err)
	clear(returned)
	value, _ := r.Field("spec", "containers")
	value.([]any)[0] = nil

	after, err := r.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	again := mustNew(t, before)
	require.Equal(t, again.metadata, r.metadata)
}

func TestNewWithoutMetadata(t *testing.T) {
	r := mustNew(t, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","uid":"u","resourceVersion":"1"}}`))
	require.Empty(t, r.Namespace())
	require.Zero(t, r.Generation())
	require.Nil(t, r.Labels())
	require.Nil(t, r.Annotations())
	require.Nil(t, r.Finalizers())
	require.Nil(t, r.OwnerReferences())
	require.Nil(t, r.DeletionTimestamp())
	require.False(t, r.IsDeleting())
	require.Equal(t, "Namespace n", r.String())
}

func TestNewAccepts(t *testing.T) {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u", ResourceVersion: "1"},
		Spec:       corev1.PodSpec{NodeName: "<node>"},
	}
	object := map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "1"},
		"spec":     map[string]any{"nodeName": "<node>"},
	}
	raw := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","uid":"u","resourceVersion":"1"},` +
		`"spec":{"nodeName":"<node>"}}`)
	cases := map[string]struct {
		reason string
		obj    any
	}{
		"Bytes":        {"JSON", raw},
		"RawMessage":   {"JSON by its other name", json.RawMessage(raw)},
		"Map":          {"a map", object},
		"Unstructured": {"an unstructured object", &unstructured.Unstructured{Object: object}},
		"Typed":        {"a typed object with TypeMeta", pod},
		"TypedValue":   {"a typed object by value", *pod},
		"Resource":     {"a resource", mustNew(t, raw)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := mustNew(t, tc.obj)
			require.Equal(t, "Pod default/web", r.String(), tc.reason)
			node, ok := r.Field("spec", "nodeName")
			require.True(t, ok)
			require.Equal(t, "<node>", node)
			require.NotContains(t, r.text, `\u003c`, "nothing is escaped that needn't be")
		})
	}
}

func TestNewRefuses(t *testing.T) {
	object := func(metadata string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":` + metadata + `,"data":{"password":"hunter2"}}`
	}
	with := func(field string) string {
		return object(`{"name":"n","uid":"u","resourceVersion":"1",` + field + `}`)
	}
	var nilResource *Resource
	var nilUnstructured *unstructured.Unstructured
	var nilPod *corev1.Pod
	cases := map[string]struct {
		reason string
		obj    any
		want   string
	}{
		"Nil":             {"nothing", nil, "object: nil"},
		"NilResource":     {"a nil pointer", nilResource, "nil *resource.Resource"},
		"NilUnstructured": {"a nil pointer", nilUnstructured, "nil *unstructured.Unstructured"},
		"NilTyped":        {"a nil pointer", nilPod, "not an object"},
		"Function":        {"what doesn't marshal", func() {}, "unsupported type"},
		"Empty":           {"no bytes", "", "no JSON"},
		"Null":            {"another value", "null", "not an object"},
		"List":            {"another value", "[{}]", "not an object"},
		"Broken":          {"no JSON", `{"a":`, "unexpected end"},
		"Trailing":        {"two documents", `{}{}`, "after the object"},
		"AllMissing": {
			"every missing field is named at once", `{}`,
			"object: missing apiVersion, kind, metadata.name, metadata.uid, metadata.resourceVersion",
		},
		"NoTypeMeta": {
			"a typed object without TypeMeta",
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u", ResourceVersion: "1"}},
			"object web: missing apiVersion, kind",
		},
		"NotCreated": {
			"an object that hasn't been observed", object(`{"name":"n","namespace":"ns"}`),
			"Secret ns/n: missing metadata.uid, metadata.resourceVersion",
		},
		"NullMetadata":    {"no metadata", object(`null`), "missing metadata.name"},
		"StringMetadata":  {"a wrong kind", object(`"x"`), "metadata: not an object"},
		"NumberName":      {"a wrong kind", with(`"namespace":1`), "Secret: metadata.namespace: not a string"},
		"FloatGeneration": {"a wrong kind", with(`"generation":1.5`), "metadata.generation: not an integer"},
		"HugeGeneration":  {"out of range", with(`"generation":9223372036854775808`), "metadata.generation: not an integer"},
		"LabelsList":      {"a wrong kind", with(`"labels":[]`), "metadata.labels: not an object"},
		"LabelNumber":     {"a wrong kind", with(`"labels":{"a":1}`), `metadata.labels["a"]: not a string`},
		"AnnotationBool":  {"a wrong kind", with(`"annotations":{"a.b/c":true}`), `metadata.annotations["a.b/c"]: not a string`},
		"FinalizersMap":   {"a wrong kind", with(`"finalizers":{}`), "metadata.finalizers: not a list"},
		"FinalizerNumber": {"a wrong kind", with(`"finalizers":["a",1]`), "metadata.finalizers[1]: not a string"},
		"OwnersMap":       {"a wrong kind", with(`"ownerReferences":{}`), "metadata.ownerReferences: not a list"},
		"OwnerString":     {"a wrong kind", with(`"ownerReferences":["a"]`), "metadata.ownerReferences[0]: not an object"},
		"OwnerUID":        {"a wrong kind", with(`"ownerReferences":[{"uid":1}]`), "metadata.ownerReferences[0].uid: not a string"},
		"OwnerController": {"a wrong kind", with(`"ownerReferences":[{"controller":1}]`), "[0].controller: neither true nor false"},
		"Time":            {"no time", with(`"deletionTimestamp":"yesterday"`), "metadata.deletionTimestamp: not a time"},
		"TimeNumber":      {"a wrong kind", with(`"deletionTimestamp":1`), "metadata.deletionTimestamp: not a string"},
		"Kind":            {"a wrong kind", `{"kind":1}`, "kind: not a string"},
		"APIVersion":      {"a wrong kind", `{"apiVersion":[]}`, "apiVersion: not a string"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if text, ok := tc.obj.(string); ok {
				tc.obj = []byte(text)
			}
			r, err := New(tc.obj)
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.NotContains(t, err.Error(), "hunter2")
			require.Nil(t, r)
		})
	}
}

func TestManagedFieldsAreCut(t *testing.T) {
	base := `"name":"n","uid":"u","resourceVersion":"1"`
	managed := `"managedFields":[{"a":"]}"}]`
	cases := map[string]struct{ reason, metadata, want string }{
		"First":    {"the comma after goes", `{` + managed + `,` + base + `}`, `{` + base + `}`},
		"Last":     {"the comma before goes", `{` + base + `,` + managed + `}`, `{` + base + `}`},
		"Middle":   {"one comma goes", `{"labels":{},` + managed + `,` + base + `}`, `{"labels":{},` + base + `}`},
		"Null":     {"whatever its value is", `{"managedFields":null,` + base + `}`, `{` + base + `}`},
		"Escaped":  {"however its key is written", `{"m\u0061nagedFields":1,` + base + `}`, `{` + base + `}`},
		"Spaces":   {"spaces go as well", "{ \"managedFields\" : [ ] ,\n\t" + base + ` }`, `{` + base + `}`},
		"Repeated": {"every one of them", `{` + managed + `,` + base + `,` + managed + `}`, `{` + base + `}`},
		"Nested":   {"only that of the object itself", `{"labels":{"managedFields":"x"},` + base + `}`, `{"labels":{"managedFields":"x"},` + base + `}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{
				`{"apiVersion":"v1","kind":"Pod","metadata":%s}`,
				`{"metadata":%s,"kind":"Pod","apiVersion":"v1"}`,
				`{"kind":"Pod","metadata":%s,"apiVersion":"v1","managedFields":1}`,
			} {
				r := mustNew(t, fmt.Appendf(nil, format, tc.metadata))
				require.JSONEq(t, fmt.Sprintf(format, tc.want), r.text, tc.reason)
				require.Equal(t, Type{APIVersion: "v1", Kind: "Pod"}, r.Type())
				require.Equal(t, "n", r.Name())
			}
		})
	}
	r := mustNew(t, fmt.Appendf(nil, `{"metadata":{%s,%s}}`, managed, base+`,"x":1},"apiVersion":"v1","kind":"Pod","y":{"z":2`))
	require.Equal(t, `{"metadata":{`+base+`,"x":1},"apiVersion":"v1","kind":"Pod","y":{"z":2}}`, r.text)
}

func TestOnlyMetadataManagedFieldsOnly(t *testing.T) {
	_, err := New([]byte(`{"metadata":{"managedFields":[]}}`))
	require.ErrorContains(t, err, "missing apiVersion")
}

func TestDuplicates(t *testing.T) {
	r := mustNew(t, []byte(`{"apiVersion":"v0","kind":"A","metadata":{"name":"lost","labels":{"lost":"1"},"managedFields":[1]},`+
		`"apiVersion":"v1","kind":"Pod","metadata":{"name":"m","name":"n","uid":"u","resourceVersion":"1",`+
		`"labels":{"a":"1","a":"2"},"annotations":{"a":"1","a":"2"}},"spec":{"a":1},"spec":{"b":1,"b":2}}`))
	require.Equal(t, Type{APIVersion: "v1", Kind: "Pod"}, r.Type())
	require.Equal(t, "n", r.Name())
	label, _ := r.Label("a")
	require.Equal(t, "2", label)
	annotation, _ := r.Annotation("a")
	require.Equal(t, "2", annotation)
	require.Equal(t, map[string]string{"a": "2"}, r.Labels())
	require.Equal(t, map[string]string{"a": "2"}, r.Annotations())
	_, ok := r.Field("spec", "a")
	require.False(t, ok)
	b, _ := r.Field("spec", "b")
	require.Equal(t, int64(2), b)
	require.NotContains(t, r.text, "managedFields")
	require.NotContains(t, r.text, "lost")
}

func TestInvalidUTF8(t *testing.T) {
	r := mustNew(t, []byte("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\xff\xfeb\",\"uid\":\"u\",\"resourceVersion\":\"1\"}}"))
	require.Equal(t, "a\uFFFD\uFFFDb", r.Name())
	require.True(t, json.Valid([]byte(r.text)))
}

// A name that is held elsewhere must not hold the object.
func TestStringsAreNotOfTheJSON(t *testing.T) {
	r := mustNew(t, []byte(podJSON))
	for _, s := range append([]string{r.Name(), string(r.UID()), r.ResourceVersion(), r.Namespace(), r.Type().Kind},
		r.Finalizers()...) {
		require.False(t, within(s, r.text), s)
	}
	for name, value := range r.Labels() {
		require.False(t, within(name, r.text), name)
		require.False(t, within(value, r.text), value)
	}
}

func TestStringShowsNoContent(t *testing.T) {
	r := mustNew(t, []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n","namespace":"ns","uid":"u","resourceVersion":"1"},"data":{"p":"hunter2"}}`))
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("hello", "object", r)
	for _, text := range []string{
		r.String(), fmt.Sprintf("%v", r), fmt.Sprintf("%+v", r), fmt.Sprintf("%#v", r), log.String(),
	} {
		require.Contains(t, text, "Secret ns/n")
		require.NotContains(t, text, "hunter2")
	}
	require.Equal(t, "no object", (*Resource)(nil).String())
	require.Equal(t, "object", (&Resource{}).String())
}

func TestLabelDoesNotAllocate(t *testing.T) {
	r := mustNew(t, []byte(podJSON))
	allocs := testing.AllocsPerRun(100, func() {
		if _, ok := r.Label("example.com/tier"); !ok {
			t.Fail()
		}
	})
	require.Zero(t, allocs)
}

func TestType(t *testing.T) {
	cases := map[string]struct {
		reason string
		typ    Type
		text   string
	}{
		"Core":  {"the core group has no name", Type{"v1", "Pod"}, "v1/Pod"},
		"Group": {"a group", Type{"apps/v1", "Deployment"}, "apps/v1/Deployment"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.text, tc.typ.String(), tc.reason)
			require.Equal(t, tc.typ, TypeFor(tc.typ.GroupVersionKind()))
		})
	}
	gvk := Type{"apps/v1", "Deployment"}.GroupVersionKind()
	require.Equal(t, "apps/v1, Kind=Deployment", gvk.String())
}

func benchmarkPod() []byte {
	pod := strings.TrimSpace(podJSON)
	managed := `"managedFields":[` + strings.Repeat(`{"manager":"kube-controller-manager","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:image":{}}}}}},`, 6) + `null]`
	return []byte(strings.Replace(pod, `"managedFields":[{"manager":"kubectl","fieldsV1":{"f:spec":{}}}]`, managed, 1))
}

func BenchmarkNew(b *testing.B) {
	pod := benchmarkPod()
	b.SetBytes(int64(len(pod)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(pod); err != nil {
			b.Fatal(err)
		}
	}
}

// What client-go's informers do for the same bytes.
func BenchmarkUnstructured(b *testing.B) {
	pod := benchmarkPod()
	b.SetBytes(int64(len(pod)))
	b.ReportAllocs()
	for b.Loop() {
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON(pod); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkField(b *testing.B) {
	r := mustNew(b, benchmarkPod())
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := r.Field("status", "phase"); !ok {
			b.Fatal("no phase")
		}
	}
}
