package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

func asKubernetes(text string) (any, error) {
	var value any
	err := kjson.Unmarshal([]byte(text), &value)
	return value, err
}

func TestDecode(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
	}{
		"Scalars":    {"Every kind of them.", `[null,true,false,0,-1,1.5,1e3,"",""]`},
		"Empty":      {"Nothing in it is not nothing.", `{"a":{},"b":[]}`},
		"Nested":     {"Containers end where they do.", `{"a":[{"b":[[1],{"c":{}}]},2],"d":"}]"}`},
		"Escapes":    {"Of quotes and backslashes, many of them.", `{"a\"":"\\","b":"\\\"","c\\":"x\\\\\"y","d":"\u003c\n","e":"\ud83d\ude00"}`},
		"Duplicates": {"The last one counts.", `{"a":{"b":1},"a":{"c":2}}`},
		"Large":      {"Beyond 64 bits.", `[9223372036854775807,9223372036854775808]`},
		"Text":       {"A string alone.", `"a"`},
		"Number":     {"A number alone.", `12`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want, err := asKubernetes(tc.text)
			require.NoError(t, err)
			got, err := Decode(tc.text, asKubernetes)
			require.NoError(t, err)
			require.Equal(t, want, got, tc.reason)
		})
	}
}

func TestDecodeNumberError(t *testing.T) {
	bad := errors.New("bad number")
	for _, text := range []string{`1`, `[1]`, `{"a":[{"b":1}]}`} {
		_, err := Decode(text, func(string) (any, error) { return nil, bad })
		require.ErrorIs(t, err, bad, text)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5,"x\\\"",null,true,{"b":{}}]}`, `"\\"`, `[[[]],[]]`, `{"":"","\"":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var compact bytes.Buffer
		if !json.Valid(data) || json.Compact(&compact, bytes.ToValidUTF8(data, []byte("?"))) != nil {
			return
		}
		want, err := asKubernetes(compact.String())
		if err != nil {
			return // a number beyond a float64
		}
		got, err := Decode(compact.String(), asKubernetes)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func BenchmarkDecode(b *testing.B) {
	const text = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"a/b":"v1:0123456789abcdef:x"},"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"one","b":"c"},"name":"one","namespace":"default","ownerReferences":[{"apiVersion":"a/v1","blockOwnerDeletion":true,"controller":true,"kind":"App","name":"one","uid":"8f7c"}],"resourceVersion":"1234","uid":"1234"},"data":{"value":"one","other":"some longer text, as they have it"}}`
	b.Run("kubernetes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := asKubernetes(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(text, asKubernetes); err != nil {
				b.Fatal(err)
			}
		}
	})
}
