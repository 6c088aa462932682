package resource

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// scans says whether the scanner takes text for valid.
func scans(text string) bool {
	s := &scanner{src: []byte(text)}
	if len(text) == 0 {
		return false
	}
	return s.value(0) == nil && s.pos == len(s.src)
}

func TestScanIsAsEncodingJSON(t *testing.T) {
	texts := []string{
		``, `x`, `{}`, `[]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1 "b":2}`, `{"a" 1}`, `{a:1}`,
		`{"a":1`, `[1`, `"`, `"a`, `"\`, `"\u12`, `"\u12g4"`, `"\u12aF"`, `"\ud800"`, `"\ud83d\ude00"`, `"\x"`, `"\/\b\f\n\r\t\"\\"`,
		"\"\n\"", "\"\x00\"", "\"\x7f\"", `0`, `-0`, `-`, `01`, `1.`, `.1`, `1.5`, `1e`, `1e+`, `1E-5`, `1e5`, `--1`, `+1`, `1.5e+10`, `1.e1`,
		`true`, `tru`, `truex`, `false`, `fals`, `null`, `nul`, `nil`, `[true,false,null]`, `{"a":{"b":[{"c":"d"}]}}`, `[[]`, `]`, `}`,
		`{"":""}`, "{ \"a\" :\t[ 1 ,\r\n2 ] }", "[\v]", "[\u00a0]", `'a'`, `[1]]`, `{}}`, `"a""b"`, `/**/1`, `NaN`, `Infinity`, `0x10`, `1_000`,
	}
	for _, text := range texts {
		require.Equal(t, json.Valid([]byte(text)), scans(text), "%q", text)
	}
}

func TestScanDepth(t *testing.T) {
	for _, depth := range []int{9999, 10000, 10001, 200000} {
		lists := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		require.Equal(t, json.Valid([]byte(lists)), scans(lists), "%d lists", depth)
		objects := strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
		require.Equal(t, json.Valid([]byte(objects)), scans(objects), "%d objects", depth)

		base := `{"apiVersion":"v1","kind":"A","metadata":{"name":"n","uid":"u","resourceVersion":"1"`
		for _, text := range []string{base + `},"x":` + lists + `}`, base + `,"x":` + lists + `}}`} {
			r, err := New([]byte(text))
			require.Equal(t, json.Valid([]byte(text)), err == nil, "%d lists in an object", depth)
			if err == nil {
				_, found := r.Field("absent")
				require.False(t, found)
			}
		}
	}
}

func TestErrorsNameNoContent(t *testing.T) {
	for _, text := range []string{`{"password":hunter2}`, `{"password":"hunter2` + "\n" + `"}`, `{"hunter2"x`} {
		_, err := New([]byte(text))
		require.ErrorContains(t, err, "invalid JSON: ")
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// An oracle is an object as encoding/json sees it.
type oracle struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name              string                  `json:"name"`
		Namespace         string                  `json:"namespace"`
		UID               string                  `json:"uid"`
		ResourceVersion   string                  `json:"resourceVersion"`
		Generation        int64                   `json:"generation"`
		Labels            map[string]string       `json:"labels"`
		Annotations       map[string]string       `json:"annotations"`
		Finalizers        []string                `json:"finalizers"`
		OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
		DeletionTimestamp *metav1.Time            `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// consult returns the object without managedFields, as a value and parsed;
// false if New must refuse it.
func consult(data []byte) (map[string]any, oracle, bool) {
	var o oracle
	if !json.Valid(data) {
		return nil, o, false
	}
	object, ok := exact(data).(map[string]any)
	if !ok {
		return nil, o, false
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	unique, err := json.Marshal(object)
	if err != nil || kjson.Unmarshal(unique, &o) != nil {
		return nil, o, false
	}
	m := &o.Metadata
	complete := o.APIVersion != "" && o.Kind != "" && m.Name != "" && m.UID != "" && m.ResourceVersion != ""
	return object, o, complete
}

// exact decodes JSON, numbers without loss.
func exact(data []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

func FuzzNew(f *testing.F) {
	base := `{"apiVersion":"v1","kind":"A","metadata":{"name":"n","uid":"u","resourceVersion":"1"`
	for _, seed := range []string{
		podJSON, base + `}}`, base + `,"managedFields":[1]},"spec":{"a":[1.5,-2e3,true,null,"\u00e9"]}}`,
		`{"metadata":{"managedFields":{},"name":"n","uid":"u","resourceVersion":"1"},"kind":"A","apiVersion":"v1"}`,
		base + `},"metadata":{"name":"n","uid":"u","resourceVersion":"2"}}`,
		base + `,"m\u0061nagedFields":1,"labels":{"a":"1","a":null}}}`, base + ` , "generation" : 7 } } `,
		base + `,"ownerReferences":[null,{"uid":"x","controller":null,"UID":"y"}],"finalizers":[null]}}`,
		base + `,"deletionTimestamp":"2026-01-02T04:00:00.5+01:00","annotations":{"` + "\xff" + `":"\ud800"}}}`,
		base + `,"name":1}}`, base + `,"generation":1e1}}`, base, `{}`, `[]`, `"`, `{"metadata":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		object, want, ok := consult(data)
		r, err := New(data)
		if (err == nil) != ok {
			t.Fatalf("New: %v, but encoding/json: %v", err, ok)
		}
		if err != nil {
			return
		}
		checkParsed(t, want, r)
		text, err := r.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, any(object), exact(text))
		var compacted bytes.Buffer
		require.NoError(t, json.Compact(&compacted, text))
		require.Equal(t, compacted.String(), string(text), "compact")
		again, err := New(text)
		require.NoError(t, err)
		require.Equal(t, r.text, again.text, "New of its own JSON")

		var decoded map[string]any
		if kjson.Unmarshal(text, &decoded) != nil {
			return // a number that no float64 holds
		}
		require.Equal(t, decoded, r.Unstructured().Object)
		for key, value := range decoded {
			field, found := r.Field(key)
			require.True(t, found, key)
			require.Equal(t, value, field, key)
		}
	})
}

func checkParsed(t *testing.T, want oracle, r *Resource) {
	t.Helper()
	var got oracle
	got.APIVersion, got.Kind = r.Type().APIVersion, r.Type().Kind
	m := &got.Metadata
	m.Name, m.Namespace, m.UID = r.Name(), r.Namespace(), string(r.UID())
	m.ResourceVersion, m.Generation = r.ResourceVersion(), r.Generation()
	m.Labels, m.Annotations, m.Finalizers = r.Labels(), r.Annotations(), r.Finalizers()
	m.OwnerReferences, m.DeletionTimestamp = r.OwnerReferences(), r.DeletionTimestamp()
	w := &want.Metadata
	for _, labels := range []*map[string]string{&w.Labels, &w.Annotations} {
		if len(*labels) == 0 {
			*labels = nil
		}
	}
	if len(w.Finalizers) == 0 {
		w.Finalizers, m.Finalizers = nil, nil
	}
	if len(w.OwnerReferences) == 0 {
		w.OwnerReferences = nil
	}
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("want %+v\ngot  %+v", want, got)
	}
	for name, value := range m.Labels {
		label, ok := r.Label(name)
		require.True(t, ok)
		require.Equal(t, value, label)
	}
	for name, value := range m.Annotations {
		annotation, ok := r.Annotation(name)
		require.True(t, ok)
		require.Equal(t, value, annotation)
	}
}
