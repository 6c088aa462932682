package resource

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// within says whether s is part of text in memory.
func within(s, text string) bool {
	start, p := uintptr(unsafe.Pointer(unsafe.StringData(text))), uintptr(unsafe.Pointer(unsafe.StringData(s)))
	return len(s) > 0 && p >= start && p < start+uintptr(len(text))
}

func TestField(t *testing.T) {
	r := mustNew(t, []byte(`{"apiVersion":"v1","kind":"A","metadata":{"name":"n","uid":"u","resourceVersion":"1"},`+
		`"spec":{"s":"a\nb","e":"","t":true,"f":false,"z":null,"i":12,"neg":-1,"min":-9223372036854775808,"big":9223372036854775808,`+
		`"huge":1e999,"x":1.5,"exp":1e3,"m":{"a.b/c":{"d":1}},"l":[1,"]",{"k":"}"}],"esc\"aped":1,"":2}}`))
	cases := map[string]struct {
		reason string
		path   []string
		want   any
		absent bool
	}{
		"String":      {reason: "escapes are decoded", path: []string{"spec", "s"}, want: "a\nb"},
		"Empty":       {reason: "an empty string", path: []string{"spec", "e"}, want: ""},
		"True":        {reason: "a bool", path: []string{"spec", "t"}, want: true},
		"False":       {reason: "a bool", path: []string{"spec", "f"}, want: false},
		"Null":        {reason: "null is there", path: []string{"spec", "z"}, want: nil},
		"Integer":     {reason: "an int64", path: []string{"spec", "i"}, want: int64(12)},
		"Negative":    {reason: "an int64", path: []string{"spec", "neg"}, want: int64(-1)},
		"Smallest":    {reason: "an int64", path: []string{"spec", "min"}, want: int64(-9223372036854775808)},
		"Big":         {reason: "beyond int64, as in unstructured", path: []string{"spec", "big"}, want: float64(9223372036854775808)},
		"Huge":        {reason: "beyond float64", path: []string{"spec", "huge"}, absent: true},
		"Fraction":    {reason: "a float64", path: []string{"spec", "x"}, want: 1.5},
		"Exponent":    {reason: "a float64", path: []string{"spec", "exp"}, want: float64(1000)},
		"Map":         {reason: "an object", path: []string{"spec", "m", "a.b/c"}, want: map[string]any{"d": int64(1)}},
		"List":        {reason: "a list", path: []string{"spec", "l"}, want: []any{int64(1), "]", map[string]any{"k": "}"}}},
		"EscapedKey":  {reason: "keys are decoded", path: []string{"spec", `esc"aped`}, want: int64(1)},
		"EmptyKey":    {reason: "a key may be empty", path: []string{"spec", ""}, want: int64(2)},
		"Absent":      {reason: "no such field", path: []string{"spec", "absent"}, absent: true},
		"ThroughText": {reason: "a string has no fields", path: []string{"spec", "s", "x"}, absent: true},
		"ThroughList": {reason: "paths don't lead through lists", path: []string{"spec", "l", "0"}, absent: true},
		"CaseMatters": {reason: "as in the API server", path: []string{"Spec"}, absent: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := r.Field(tc.path...)
			require.Equal(t, !tc.absent, ok, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
	all, ok := mustNew(t, []byte(podJSON)).Field()
	require.True(t, ok)
	require.Contains(t, all, "spec", "the empty path is the object")
}

func TestDecode(t *testing.T) {
	r := mustNew(t, []byte(podJSON))

	pod, err := As[corev1.Pod](r)
	require.NoError(t, err)
	require.Equal(t, "<&>", pod.Spec.Containers[0].Env[0].Value)
	require.Equal(t, "Pod", pod.Kind)
	require.Nil(t, pod.ManagedFields)

	pointer, err := As[*corev1.Pod](r)
	require.NoError(t, err)
	require.Equal(t, &pod, pointer)

	object, err := As[map[string]any](r)
	require.NoError(t, err)
	require.Equal(t, r.Unstructured().Object, object)
	require.Equal(t, int64(30), object["spec"].(map[string]any)["terminationGracePeriodSeconds"])

	caseMatters, err := As[struct{ KIND, Kind string }](r)
	require.NoError(t, err)
	require.Empty(t, caseMatters.KIND)

	_, err = As[struct {
		Spec string `json:"spec"`
	}](r)
	require.ErrorContains(t, err, "Pod default/web: decode into")
}

func TestUnstructured(t *testing.T) {
	r := mustNew(t, []byte(podJSON))
	u := r.Unstructured()
	require.Equal(t, "web", u.GetName())
	require.Empty(t, u.GetManagedFields())
	u.SetName("other")
	require.Equal(t, "web", r.Unstructured().GetName())

	huge := mustNew(t, []byte(`{"apiVersion":"v1","kind":"A","metadata":{"name":"n","uid":"u","resourceVersion":"1"},"x":1e999}`))
	require.Empty(t, huge.Unstructured().Object)
}
