package plan

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/resource"
)

func TestDifferencesOfConditions(t *testing.T) {
	t.Parallel()
	site := resource.Type{APIVersion: "example.com/v1", Kind: "Site"}
	const live = `{"type":"Old","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"},
		{"type":"Ready","status":"False","reason":"Waits","message":"for a Pod","lastTransitionTime":"2026-01-01T00:00:00Z","lastProbeTime":null}`
	for name, tc := range map[string]struct {
		reason     string
		live, want string   // lists of conditions
		not        []string // the paths that differ
	}{
		"Order":         {"it means nothing", live, `{"type":"Ready","status":"False","reason":"Waits","message":"for a Pod"},{"type":"Old","status":"True"}`, nil},
		"Others":        {"another writer's", live, `{"type":"Ready","status":"False"}`, nil},
		"Times":         {"those of the run", live, `{"type":"Ready","status":"False","lastTransitionTime":"2026-02-02T00:00:00Z","lastProbeTime":"2026-02-02T00:00:00Z"}`, nil},
		"Typed":         {"a typed condition has a reason and a message whether a test sets them or not", live, `{"type":"Ready","status":"False","reason":"","message":"","lastTransitionTime":null}`, nil},
		"Status":        {"the condition is named", live, `{"type":"Ready","status":"True"}`, []string{"status.conditions.Ready.status"}},
		"Reason":        {"what the test says counts", live, `{"type":"Ready","status":"False","reason":"Stuck"}`, []string{"status.conditions.Ready.reason"}},
		"Absent":        {"it is wanted", live, `{"type":"Live","status":"True"}`, []string{"status.conditions.Live"}},
		"NoneYet":       {"a list that is empty", ``, `{"type":"Live","status":"True"}`, []string{"status.conditions"}},
		"None":          {"no condition may be there", live, ``, []string{"status.conditions"}},
		"TwoOfAType":    {"such a list is compared whole", `{"type":"A","zone":"1"},{"type":"A","zone":"2"}`, `{"type":"A","zone":"2"},{"type":"A","zone":"1"}`, []string{"status.conditions[0].zone", "status.conditions[1].zone"}},
		"TwoTimes":      {"but without times", `{"type":"A","lastTransitionTime":"x"},{"type":"A"}`, `{"type":"A"},{"type":"A","lastTransitionTime":"y"}`, nil},
		"NotConditions": {"a list of something else", `"a","b"`, `"b","a"`, []string{"status.conditions[0]", "status.conditions[1]"}},
	} {
		for where, form := range map[string]string{"": `{"status":{"conditions":[%s]}}`, " within": `{"status":{"parts":[{"conditions":[%s]}]}}`} {
			t.Run(name+where, func(t *testing.T) {
				t.Parallel()
				object := func(conditions string) map[string]any {
					out, err := encode.Map(json.RawMessage(fmt.Sprintf(form, conditions)))
					require.NoError(t, err)
					return out
				}
				found := Differences(&catalog.Catalog{}, site, object(tc.live), object(tc.want))
				paths := []string(nil)
				for _, d := range found {
					paths = append(paths, d.Path)
				}
				want := []string(nil)
				for _, path := range tc.not {
					if where != "" {
						path = "status.parts[0]" + path[len("status"):]
					}
					want = append(want, path)
				}
				require.Equal(t, want, paths, tc.reason)
			})
		}
	}
}
