package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource/k8s"
)

// TestGiven: the data of a child, those that it was given, those that are desired now,
// and which keys the operator owns tell which differences nobody else has made.
func TestGiven(t *testing.T) {
	type data = map[string]any
	for name, tc := range map[string]struct {
		reason               string
		given, live, desired data
		owned                string // fieldsV1 of the data; empty: no entry
		want                 []string
		recreate             []string // with strategy Recreate
	}{
		"added":       {"a default is said now, too", data{"k": "a"}, data{"k": "hook", "l": "b"}, data{"k": "a", "l": "b"}, `"f:k":{},"f:l":{}`, []string{"data.k"}, []string{"data.k"}},
		"and changed": {"what is new is to be written, and is no default though it is ours", data{"k": "a"}, data{"k": "hook", "l": "default"}, data{"k": "a", "l": "b"}, `"f:k":{},"f:l":{}`, []string{"data.k"}, nil},
		"edited":      {"somebody else has changed the field", data{"k": "a"}, data{"k": "theirs", "l": "b"}, data{"k": "a", "l": "b"}, `"f:l":{}`, nil, nil},
		"one edited":  {"of two fields", data{"k": "a", "m": "a"}, data{"k": "hook", "m": "theirs"}, data{"k": "a", "m": "a", "n": ""}, `"f:k":{}`, []string{"data.k"}, nil},
		"no entry":    {"managedFields were dropped", data{"k": "a"}, data{"k": "hook"}, data{"k": "a", "l": "b"}, "", nil, nil},
		"other value": {"nobody knows what was said before", data{"k": "a"}, data{"k": "hook"}, data{"k": "b", "l": "b"}, `"f:k":{}`, nil, nil},
		"dropped":     {"nor what was in the place of what is gone", data{"k": "a", "m": "b"}, data{"k": "hook", "m": "b"}, data{"k": "a"}, `"f:k":{},"f:m":{}`, nil, nil},
		"no hook":     {"the child is what it was given", data{"k": "a"}, data{"k": "a"}, data{"k": "a", "l": "b"}, `"f:k":{}`, nil, nil},
	} {
		for strategy, want := range map[config.UpdateStrategy][]string{config.Replace: tc.want, config.Apply: tc.want, config.Recreate: tc.recreate} {
			t.Run(name+string(strategy), func(t *testing.T) {
				s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: strategy})
				parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
				saying := func(d data) map[string]any {
					return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}, "data": d}
				}
				live := lived(t, s, parent, saying(tc.given), func(o map[string]any) { o["data"] = tc.live })
				desired, err := Desire(s, parent, []any{saying(tc.desired)}, &ParentMemory{})
				require.NoError(t, err)
				a, ok := decide(s, desired[0], live, nil, comparison{})
				require.True(t, ok)
				var entries []string
				if tc.owned != "" {
					entries = []string{`{"f:data":{` + tc.owned + `}}`}
				}
				var paths []string
				if given, ok := GivenTo(s, &a); ok {
					if found, ok := given.Held(entries); ok {
						paths = Paths(found.Rest)
					}
				}
				require.Equal(t, want, paths, tc.reason)
			})
		}
	}
}
