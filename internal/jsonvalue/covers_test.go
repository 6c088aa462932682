package jsonvalue

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCovers(t *testing.T) {
	cases := map[string]struct {
		reason, text, want string
		covers             bool
	}{
		"Same":            {"Is covered.", `{"a":"x","b":{"c":[1,true,"y",{"d":false}]}}`, `{"a":"x","b":{"c":[1,true,"y",{"d":false}]}}`, true},
		"Empty":           {"Nothing is wanted.", `{"a":1}`, `{}`, true},
		"More":            {"Objects may have what isn't wanted, whatever it is.", `{"z":[{"y":"}"},"\"]"],"a":{"n":-1.5e3,"b":1,"m":null}}`, `{"a":{"b":1}}`, true},
		"Missing":         {"A member that isn't there.", `{"a":{"b":1}}`, `{"a":{"b":1,"c":1}}`, false},
		"Null":            {"Wants nothing.", `{"a":1}`, `{"a":1,"b":null}`, true},
		"NullAnyhow":      {"Wants nothing of what is there either.", `{"a":1}`, `{"a":null}`, true},
		"Text":            {"Another text.", `{"a":"x"}`, `{"a":"xy"}`, false},
		"Escapes":         {"Count for what they mean.", `{"a":"\u0078\n","\u0062":1}`, `{"a":"x\n","b":1}`, true},
		"TextNotNumber":   {"A text is no number.", `{"a":"1"}`, `{"a":1}`, false},
		"NumberNotText":   {"Nor the other way round.", `{"a":1}`, `{"a":"1"}`, false},
		"LongerNumber":    {"Begins like another.", `{"a":12}`, `{"a":1}`, false},
		"Fraction":        {"Might be the same; that takes a closer look.", `{"a":1.0}`, `{"a":1}`, false},
		"ObjectNotText":   {"Another kind of value.", `{"a":"x"}`, `{"a":{}}`, false},
		"EmptyObject":     {"Is an object.", `{"a":{"b":1}}`, `{"a":{}}`, true},
		"LongerList":      {"Another list.", `{"a":[1,2]}`, `{"a":[1]}`, false},
		"ShorterList":     {"Another list.", `{"a":[1]}`, `{"a":[1,2]}`, false},
		"EmptyList":       {"Is empty.", `{"a":[]}`, `{"a":[]}`, true},
		"EmptyListWanted": {"And no other.", `{"a":[1]}`, `{"a":[]}`, false},
		"NoList":          {"Might be as good as an empty one.", `{"b":1}`, `{"a":[]}`, false},
		"ListOfObjects":   {"A member more could tell items apart.", `{"a":[{"b":1,"c":2}]}`, `{"a":[{"b":1}]}`, false},
		"ListBelow":       {"At any depth.", `{"a":[{"b":{"d":1,"c":2}}]}`, `{"a":[{"b":{"d":1}}]}`, false},
		"NullInList":      {"Takes a closer look.", `{"a":[null]}`, `{"a":[null]}`, false},
		"Twice":           {"The last one counts, so that it takes a closer look.", `{"a":1,"b":1,"a":2}`, `{"a":1,"b":1}`, false},
		"TwiceApart":      {"In whatever order the others are.", `{"b":1,"a":1,"b":1}`, `{"a":1,"b":1,"c":1}`, false},
		"TwiceForTwo":     {"One member twice isn't two.", `{"a":1,"a":1}`, `{"a":1,"b":1}`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want, err := asKubernetes(tc.want)
			require.NoError(t, err)
			require.Equal(t, tc.covers, Covers(tc.text, want.(map[string]any), nil), tc.reason)
		})
	}
}

// has says of decoded values what Covers says of a text.
func has(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		for key, value := range want {
			ok = ok && (value == nil || has(have[key], value))
		}
		return ok
	case []any:
		have, ok := live.([]any)
		ok = ok && len(have) == len(want)
		for i := range want {
			ok = ok && has(have[i], want[i])
		}
		return ok
	}
	return live == want
}

func FuzzCovers(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,{"c":"x"}]},"d":true}`), []byte(`{"a":{"b":[1,{"c":"x"}]}}`))
	f.Add([]byte(`{"a":1,"a":"\u0041"}`), []byte(`{"a":"A","b":null}`))
	f.Fuzz(func(t *testing.T, live, wanted []byte) {
		liveValue, err := asKubernetes(string(live))
		if err != nil {
			return
		}
		want, err := asKubernetes(string(wanted))
		wantObject, ok := want.(map[string]any)
		if _, isObject := liveValue.(map[string]any); !isObject || err != nil || !ok {
			return
		}
		compact, err := json.Marshal(json.RawMessage(live))
		require.NoError(t, err)
		if Covers(string(compact), wantObject, nil) {
			require.True(t, has(liveValue, wantObject))
		}
		again, err := Append(nil, liveValue)
		require.NoError(t, err)
		if !unsure(liveValue, false) {
			require.True(t, Covers(string(again), liveValue.(map[string]any), nil), "an equal value is covered")
		}
	})
}

// unsure says whether a value has a part for which Covers always returns false: a
// float64, or null in a list.
func unsure(v any, inList bool) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if unsure(member, inList) {
				return true
			}
		}
		return false
	case []any:
		for _, item := range v {
			if unsure(item, true) {
				return true
			}
		}
		return false
	case float64:
		return true
	}
	return v == nil && inList
}
