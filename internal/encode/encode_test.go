package encode

import (
	"encoding/json"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/roperator/roperator/internal/jsonvalue"
	roperator "github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

const configMapJSON = `{"apiVersion":"v1","data":{"a":"<1>"},"kind":"ConfigMap","metadata":{"name":"c","namespace":"ns"}}`

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"},
		Data:       map[string]string{"a": "<1>"},
	}
}

func configMapOf(object map[string]any) map[string]any {
	out := map[string]any{
		"metadata": map[string]any{"name": "c", "namespace": "ns"},
		"data":     map[string]any{"a": "<1>"},
		"kind":     "ConfigMap", "apiVersion": "v1",
	}
	maps.Copy(out, object)
	return out
}

// An embedded type of a user's own.
type custom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Size              int `json:"size"`
}

func TestMap(t *testing.T) {
	typed := configMap()
	typed.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	kindOnly := configMap()
	kindOnly.Kind = "ConfigMap"
	other := configMap()
	other.APIVersion = "example.com/v1"
	observed, err := roperator.New([]byte(`{"kind":"ConfigMap","metadata":{"namespace":"ns","name":"c","uid":"u","resourceVersion":"1"},"apiVersion":"v1"}`))
	require.NoError(t, err)
	observedJSON := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"ns","resourceVersion":"1","uid":"u"}}`
	cases := map[string]struct {
		reason string
		obj    any
		want   string
	}{
		"Typed":        {"TypeMeta comes from client-go's scheme", configMap(), configMapJSON},
		"TypedValue":   {"by value as well", *configMap(), configMapJSON},
		"TypeMeta":     {"TypeMeta may be there", typed, configMapJSON},
		"KindOnly":     {"what is missing is filled in", kindOnly, configMapJSON},
		"Map":          {"it is one already", configMapOf(nil), configMapJSON},
		"Unstructured": {"an unstructured object", &unstructured.Unstructured{Object: configMapOf(nil)}, configMapJSON},
		"Apply":        {"an apply configuration", applycorev1.ConfigMap("c", "ns").WithData(map[string]string{"a": "<1>"}), configMapJSON},
		"RawMessage":   {"JSON", json.RawMessage(" {\"kind\":\"ConfigMap\", \"metadata\":{\"namespace\":\"ns\",\"name\":\"c\"},\"data\":{\"a\":\"<1>\"},\"apiVersion\":\"v1\"}\n"), configMapJSON},
		"Bytes":        {"JSON", []byte(configMapJSON), configMapJSON},
		"Typed in map": {"values of any type", configMapOf(map[string]any{"data": map[string]string{"a": "<1>"}}), configMapJSON},
		"Resource":     {"an observed object", observed, observedJSON},
		"Kept":         {"a child to keep", Kept{Resource: observed}, observedJSON},
		"KeptPointer":  {"a child to keep", &Kept{Resource: observed}, observedJSON},
		"Custom":       {"a type that client-go doesn't know stays incomplete", &custom{Size: 1}, `{"metadata":{},"size":1}`},
		"CustomValue":  {"by value as well", custom{Size: 1}, `{"metadata":{},"size":1}`},
		"Disagreement": {
			"an API version that isn't client-go's is left alone", other,
			`{"apiVersion":"example.com/v1","data":{"a":"<1>"},"metadata":{"name":"c","namespace":"ns"}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Map(tc.obj)
			require.NoError(t, err, tc.reason)
			text, err := jsonvalue.Append(nil, got)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(text), tc.reason)

			summed, err := mapSummed(tc.obj)
			require.NoError(t, err)
			require.Equal(t, got, summed, "the same from what was summed")
		})
	}
}

// mapSummed returns what a Summer makes of obj after it has summed it, and
// another one before.
func mapSummed(obj any) (map[string]any, error) {
	var s Summer
	_, _ = s.Sum(&custom{Size: 2})
	_, _ = s.Sum(obj) // Map says what is wrong
	return s.Map(obj)
}

func TestNumbers(t *testing.T) {
	type number int16
	got, err := Map(map[string]any{
		"int": 1, "int8": int8(2), "int32": int32(3), "int64": int64(math.MaxInt64), "uint": uint(4), "uint64": uint64(5),
		"own": number(6), "float32": float32(0.5), "float64": 1.5, "whole": float64(7), "json": json.Number("8"), "jsonFloat": json.Number("1e2"),
		"raw": json.RawMessage(`[9,1.5,-0]`), "quantity": resource.MustParse("100m"), "bytes": []byte("hi"),
		"pointer": new(int), "nil": nil, "nilMap": map[string]any(nil), "nilList": []any(nil), "list": []any{int32(1), "a", true},
		"ints": []int{1, 2},
	})
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"int": int64(1), "int8": int64(2), "int32": int64(3), "int64": int64(math.MaxInt64), "uint": int64(4), "uint64": int64(5),
		"own": int64(6), "float32": 0.5, "float64": 1.5, "whole": int64(7), "json": int64(8), "jsonFloat": int64(100),
		"raw": []any{int64(9), 1.5, int64(0)}, "quantity": "100m", "bytes": "aGk=",
		"pointer": int64(0), "nil": nil, "nilMap": nil, "nilList": nil, "list": []any{int64(1), "a", true},
		"ints": []any{int64(1), int64(2)},
	}, got)
}

// What the API server makes of a number's text is what Map makes of the number,
// whatever Go type it has.
func TestNumbersAreAsTheServerReadsThem(t *testing.T) {
	for text, tc := range map[string]struct {
		reason string
		want   any
	}{
		"2.0":                    {"a whole number", int64(2)},
		"1e3":                    {"a whole number", int64(1000)},
		"-0.0":                   {"there is one zero", int64(0)},
		"1.50":                   {"a fraction", 1.5},
		"9007199254740993.0":     {"the nearest float", int64(9007199254740992)},
		"1.2345678901234567e18":  {"the digits that are written, not those of the float", int64(1234567890123456800)},
		"-1.2345678901234567e18": {"the same below zero", int64(-1234567890123456800)},
		"-9223372036854775808.0": {"what is written is beyond 64 bits", -float64(1 << 63)},
		"1e19":                   {"beyond 64 bits", 1e19},
		"12345678901234567890.0": {"beyond 64 bits", 12345678901234567890.0},
		"1e21":                   {"written with an exponent", 1e21},
	} {
		t.Run(text, func(t *testing.T) {
			float, err := strconv.ParseFloat(text, 64)
			require.NoError(t, err)
			for _, value := range []any{float, json.Number(text), json.RawMessage(text), struct{ V float64 }{float}, struct{ V json.RawMessage }{json.RawMessage(text)}} {
				got, err := Map(map[string]any{"value": value})
				require.NoError(t, err, "%T", value)
				if object, ok := got["value"].(map[string]any); ok {
					got["value"] = object["V"]
				}
				require.Equal(t, tc.want, got["value"], "%T: %s", value, tc.reason)
				written, err := jsonvalue.Append(nil, got)
				require.NoError(t, err)
				var read map[string]any
				require.NoError(t, kjson.Unmarshal(written, &read))
				require.Equal(t, got, read, "%T: what the API server reads", value)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	big := uint64(math.MaxUint64)
	bigResource, err := roperator.New([]byte(`{"apiVersion":"v1","kind":"A","metadata":{"name":"n","uid":"u","resourceVersion":"1"},"n":18446744073709551615}`))
	require.NoError(t, err)
	deep := map[string]any{}
	for inner, i := deep, 0; i < 10001; i++ {
		next := map[string]any{}
		inner["a"] = next
		inner = next
	}
	var nilPod *corev1.Pod
	var nilMap map[string]any
	var nilKept *Kept
	var nilResource *roperator.Resource
	cases := map[string]struct {
		reason string
		obj    any
		want   string
	}{
		"Nil":         {"nothing", nil, "object is nil"},
		"NilPod":      {"a nil pointer", nilPod, "object is a nil *v1.Pod"},
		"NilMap":      {"a nil map", nilMap, "object is a nil map[string]interface {}"},
		"NilKept":     {"a nil pointer", nilKept, "object is nil"},
		"KeptNothing": {"nothing is kept", Kept{}, "object is a nil *resource.Resource"},
		"NilResource": {"a nil pointer", nilResource, "object is a nil *resource.Resource"},
		"Unstructured": {
			"an empty object", &unstructured.Unstructured{},
			"object is an empty *unstructured.Unstructured",
		},
		"String":     {"no object", "Pod", "string: not an object"},
		"List":       {"no object", []any{}, "[]interface {}: not an object"},
		"Broken":     {"no JSON", []byte(`{"a":`), "[]uint8: JSON: unexpected EOF"},
		"TwoObjects": {"one too many", []byte(`{}{}`), "something follows the value"},
		"Channel":    {"what doesn't marshal", map[string]any{"a": map[string]any{"b": make(chan int)}}, "a.b: json: unsupported type"},
		"BigInMap":   {"silently rounded otherwise", map[string]any{"spec": []any{map[string]any{"n": big}}}, "spec[0].n: the integer is beyond 64 bits"},
		"BigInJSON":  {"silently rounded otherwise", []byte(`{"spec":{"a.b":[1,18446744073709551615]}}`), `spec["a.b"][1]: the integer is beyond 64 bits`},
		"BigInType": {
			"silently rounded otherwise", struct {
				Spec struct{ N uint64 } `json:"spec"`
			}{struct{ N uint64 }{big}}, "spec.N: the integer is beyond 64 bits",
		},
		"BigInNested": {"the path continues through values that are marshalled", map[string]any{"a": map[string]uint64{"b": big}}, "a.b: the integer"},
		"BigResource": {"silently rounded otherwise", bigResource, "n: the integer is beyond 64 bits"},
		"BigNumber":   {"silently rounded otherwise", map[string]any{"a": json.Number("9223372036854775808")}, "a: the integer is beyond 64 bits"},
		"HugeNumber":  {"an infinity otherwise", map[string]any{"a": json.Number("1e400")}, "a: the number is beyond a float64"},
		"Huge":        {"an infinity otherwise", []byte(`{"a":1e999}`), "a: the number is beyond a float64"},
		"NaN":         {"not JSON", map[string]any{"a": math.NaN()}, "a: the number is infinite or not a number"},
		"Infinity":    {"not JSON", map[string]any{"a": math.Inf(-1)}, "a: the number is infinite"},
		"NotUTF8":     {"silently replaced otherwise", map[string]any{"data": map[string]any{"": "\xff"}}, `data[""]: the string is not valid UTF-8`},
		"NotUTF8Key":  {"silently replaced otherwise", map[string]any{"\xff": 1}, `the string is not valid UTF-8`},
		"NotUTF8Type": {
			"silently replaced otherwise",
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"a": "\ufffd", "b": "\xff"}}, "the string is not valid UTF-8",
		},
		"NotUTF8JSON": {"silently replaced otherwise", []byte("{\"a\":\"\xff\"}"), "the JSON is not valid UTF-8"},
		"Deep":        {"endless otherwise", deep, "nested too deep"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := mapSummed(tc.obj)
			require.ErrorContains(t, err, tc.want, tc.reason)
			_, err = Map(tc.obj)
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.Less(t, len(err.Error()), 600, "an error is for reading")
		})
	}
}

func TestReplacementCharacterIsText(t *testing.T) {
	data := map[string]string{"a": "\ufffd", "b": `\ufffd`}
	got, err := Map(&corev1.ConfigMap{Data: data})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": "\ufffd", "b": `\ufffd`}, got["data"])
}

func TestMapIsFresh(t *testing.T) {
	inner := map[string]any{"a": []any{map[string]any{"b": "c"}}}
	got, err := Map(inner)
	require.NoError(t, err)
	got["a"].([]any)[0].(map[string]any)["b"] = "changed"
	got["new"] = true
	require.Equal(t, map[string]any{"a": []any{map[string]any{"b": "c"}}}, inner)

	typed := configMap()
	_, err = Map(typed)
	require.NoError(t, err)
	require.Empty(t, typed.Kind, "the handler's object stays as it is")
}

func TestIdentity(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "c"}
	observed, err := roperator.New([]byte(`{"kind":"ConfigMap","metadata":{"namespace":"ns","name":"c","uid":"u","resourceVersion":"1"},"apiVersion":"v1"}`))
	require.NoError(t, err)
	other := configMap()
	other.APIVersion = "example.com/v1"
	cases := map[string]struct {
		reason string
		obj    any
		typ    roperator.Type
		key    types.NamespacedName
	}{
		"Typed":        {"from the scheme", configMap(), k8s.ConfigMap, key},
		"TypedValue":   {"by value as well", *configMap(), k8s.ConfigMap, key},
		"Map":          {"a map", configMapOf(nil), k8s.ConfigMap, key},
		"Unstructured": {"an unstructured object", &unstructured.Unstructured{Object: configMapOf(nil)}, k8s.ConfigMap, key},
		"Apply":        {"an apply configuration", applycorev1.ConfigMap("c", "ns"), k8s.ConfigMap, key},
		"JSON":         {"JSON", []byte(configMapJSON), k8s.ConfigMap, key},
		"Resource":     {"an observed object", observed, k8s.ConfigMap, key},
		"Kept":         {"a child to keep", Kept{Resource: observed}, k8s.ConfigMap, key},
		"Disagreement": {"what the object says counts", other, roperator.Type{APIVersion: "example.com/v1"}, key},
		"Nothing":      {"what is missing is empty", map[string]any{"metadata": "x", "kind": 1}, roperator.Type{}, types.NamespacedName{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			typ, key, err := Identity(tc.obj)
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.typ, typ, tc.reason)
			require.Equal(t, tc.key, key, tc.reason)
		})
	}
	for _, obj := range []any{nil, "x", (*corev1.Pod)(nil)} {
		_, _, err := Identity(obj)
		require.Error(t, err)
	}
}

func TestErrorsShowNoValues(t *testing.T) {
	_, err := Map([]byte(`{"data":{"password":"hunter2","n":99999999999999999999}}`))
	require.ErrorContains(t, err, "data.n")
	require.False(t, strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "999"))
}

func BenchmarkMapTyped(b *testing.B) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "nginx", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
		}}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Map(pod); err != nil {
			b.Fatal(err)
		}
	}
}
