package jsonvalue

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainly returns the text that encoding/json writes without escapes for HTML.
func plainly(v any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return string(bytes.TrimSuffix(out.Bytes(), []byte("\n"))), err
}

func TestAppend(t *testing.T) {
	cases := map[string]struct {
		reason string
		value  any
	}{
		"Null":    {"Nothing is null.", nil},
		"NilMap":  {"As encoding/json has it.", map[string]any(nil)},
		"NilList": {"As encoding/json has it.", []any(nil)},
		"Empty":   {"Containers may be empty.", map[string]any{"a": map[string]any{}, "b": []any{}}},
		"Sorted":  {"By key, also beyond the scratch space.", manyKeys(40)},
		"Numbers": {"Whole, fractions, very large and very small ones.", []any{int64(math.MinInt64), int64(7), 0.0, math.Copysign(0, -1), 1.5, 1e20, 1e21, 1e-6, 9e-7, 1e-9, 1e-10, 123456789e300, -2.5e-300}},
		"Strings": {"Quotes, controls, what isn't UTF-8, separators of JavaScript; HTML as it is.", []any{"", `"\`, "\b\f\n\r\t\x00\x1f\x7f", "a\xffb\xc3", "\u2028\u2029é😀", "<a&b>"}},
		"Keys":    {"Are strings like others.", map[string]any{"a\"b": true, "\xff": false}},
		"Others":  {"Go types that aren't JSON's own.", map[string]any{"a": []string{"x"}, "b": json.Number("12"), "c": 3, "d": map[string]string{"z": "1", "y": "2"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want, err := plainly(tc.value)
			require.NoError(t, err)
			got, err := Append([]byte("x"), tc.value)
			require.NoError(t, err)
			require.Equal(t, "x"+want, string(got), tc.reason)
		})
	}
}

func manyKeys(n int) map[string]any {
	out := map[string]any{}
	for i := range n {
		out[string(rune('a'+i*7%40))] = int64(i)
	}
	return out
}

func TestAppendError(t *testing.T) {
	for _, v := range []any{math.NaN(), math.Inf(1), func() {}} {
		_, err := Append(nil, map[string]any{"a": []any{v}})
		_, want := plainly(v)
		require.EqualError(t, err, want.Error())
	}
}

func FuzzAppend(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5,1e30,"x\\\"\u2028\u0000",null,true,{"b":{}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var value any
		if err := json.Unmarshal(data, &value); err != nil {
			return
		}
		want, err := plainly(value)
		require.NoError(t, err)
		got, err := Append(nil, value)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	})
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\xff\u2029\n")
	f.Fuzz(func(t *testing.T, text string) {
		want, err := plainly(text)
		require.NoError(t, err)
		require.Equal(t, want, string(appendString(nil, text)))
	})
}

func BenchmarkAppend(b *testing.B) {
	const text = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"a/b":"v1:0123456789abcdef:x"},"labels":{"app":"one","b":"c"},"name":"one","namespace":"default","ownerReferences":[{"apiVersion":"a/v1","blockOwnerDeletion":true,"controller":true,"kind":"App","name":"one","uid":"8f7c"}]},"data":{"value":"one","other":"some longer text, as they have it"}}`
	value, err := asKubernetes(text)
	require.NoError(b, err)
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Append(nil, value); err != nil {
				b.Fatal(err)
			}
		}
	})
}
