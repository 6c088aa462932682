package apply_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func configMap(data map[string]any) map[string]any { return child(k8s.ConfigMap, "c", data) }

// saying changes a ConfigMap to say data.k: value.
func saying(value string) func(o map[string]any) {
	return func(o map[string]any) { o["data"] = map[string]any{"k": value} }
}

// TestFindings: what an action finds out leads to another action, until there is
// nothing more to do. The API server stores data.k: 1000m as data.k: 1.
func TestFindings(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		strategy config.UpdateStrategy
		adopt    bool
		dryRun   bool
		given    map[string]any // the data that the child was created with
		now      string         // its data.k as it is now
		planned  plan.Verb
		asked    []string
		want     apply.Result // without the action, the live object and its fields
		verb     plan.Verb    // of the last action
	}{
		"verify/normalized": {
			reason: "the dry run comes back unchanged, so there is nothing to write", strategy: config.Replace,
			given: map[string]any{"k": "1000m"}, now: "1", planned: plan.VerbVerify,
			asked: []string{"dry update ConfigMap ns/c"}, verb: plan.VerbVerify,
			want: apply.Result{Accepted: true, Rest: []merge.Difference{{Path: "data.k", Live: "1", Desired: "1000m"}}},
		},
		"verify/drifted": {
			reason: "the server makes something else of the desired state, so somebody has changed the child", strategy: config.Replace,
			given: map[string]any{"k": "1000m"}, now: "2", planned: plan.VerbVerify,
			asked: []string{"dry update ConfigMap ns/c", "update ConfigMap ns/c"}, verb: plan.VerbUpdate,
			want: apply.Result{Wrote: true, Accepted: true, Rest: []merge.Difference{{Path: "data.k", Live: "1", Desired: "1000m"}}},
		},
		"verify/drifted, in a dry run": {
			reason: "the update is tried, and no more", strategy: config.Replace, dryRun: true,
			given: map[string]any{"k": "1000m"}, now: "2", planned: plan.VerbVerify,
			asked: []string{"dry update ConfigMap ns/c", "dry update ConfigMap ns/c"}, verb: plan.VerbUpdate,
			want: apply.Result{Skipped: true, Would: plan.VerbUpdate, Fields: []plan.FieldChange{{Path: "data.k", Live: "2", Desired: "1"}}},
		},
		"verify/to be recreated": {
			reason: "the strategy says how a differing child is changed", strategy: config.Recreate,
			given: map[string]any{"k": "1000m"}, now: "2", planned: plan.VerbVerify,
			asked: []string{"dry update ConfigMap ns/c", "dry update ConfigMap ns/c", "delete ConfigMap ns/c"}, verb: plan.VerbRecreate,
			want: apply.Result{Wrote: true},
		},
		"recreate/spelled otherwise": {
			reason: "the update would change the mark alone, so the child stays", strategy: config.Recreate,
			given: map[string]any{"k": "1"}, now: "1", planned: plan.VerbRecreate,
			asked: []string{"dry update ConfigMap ns/c", "patch ConfigMap ns/c"}, verb: plan.VerbMark,
			want: apply.Result{Wrote: true, Accepted: true, Rest: []merge.Difference{{Path: "data.k", Live: "1", Desired: "1000m"}}},
		},
		"recreate/different": {
			reason: "the child has to go", strategy: config.Recreate,
			given: map[string]any{"k": "2"}, now: "2", planned: plan.VerbRecreate,
			asked: []string{"dry update ConfigMap ns/c", "delete ConfigMap ns/c"}, verb: plan.VerbRecreate,
			want: apply.Result{Wrote: true},
		},
		"claim": {
			reason: "the object becomes a child now, and is brought in line by the next pass", strategy: config.Replace, adopt: true,
			now: "2", planned: plan.VerbCreate,
			asked: []string{"create ConfigMap ns/c", "get ConfigMap ns/c", "patch ConfigMap ns/c"}, verb: plan.VerbCreate,
			want: apply.Result{Wrote: true, Claimed: true},
		},
		"claim/in a dry run": {
			reason: "what becomes of the child is foreseen, too", strategy: config.Replace, adopt: true, dryRun: true,
			now: "2", planned: plan.VerbCreate,
			asked: []string{"dry create ConfigMap ns/c", "get ConfigMap ns/c", "dry patch ConfigMap ns/c", "dry update ConfigMap ns/c"}, verb: plan.VerbUpdate,
			want: apply.Result{Skipped: true, Would: plan.VerbUpdate},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", tc.dryRun, config.Child{Type: k8s.ConfigMap, Strategy: tc.strategy, Adopt: tc.adopt})
			var live []*resource.Resource
			if tc.given != nil {
				live = append(live, f.given(configMap(tc.given), saying(tc.now)))
			} else {
				foreign := configMap(nil)
				saying(tc.now)(foreign)
				_, err := f.server.Create(foreign)
				require.NoError(t, err)
			}
			f.admitting()
			p := f.plan(live, configMap(map[string]any{"k": "1000m"}))
			require.Len(t, p.Writes, 1)
			require.Equal(t, tc.planned, p.Writes[0].Verb)
			planned := p.Writes[0]

			report := f.run(t.Context(), p)

			require.Equal(t, tc.asked, f.asked(), tc.reason)
			require.Equal(t, planned, p.Writes[0], "a planned action is never changed")
			require.Len(t, report.Results, 1)
			got := report.Results[0]
			require.Equal(t, tc.verb, got.Action.Verb)
			if tc.adopt && tc.dryRun {
				require.Subset(t, pathsOf(got.Fields), []string{"data.k", "metadata.ownerReferences"}, tc.reason)
				got.Fields = nil
			}
			got.Action, got.Live = nil, nil
			require.Equal(t, tc.want, got, tc.reason)
			require.Equal(t, got.Wrote, !report.FirstWrite.IsZero())
		})
	}
}

// An applier answers server-side applies of ConfigMaps, which fakeapi doesn't
// know, by giving the object the data that is applied.
type applier struct {
	next http.RoundTripper
	f    *fixture
}

// RoundTrip is http.RoundTripper's.
func (a applier) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Content-Type") != string(types.ApplyYAMLPatchType) {
		return a.next.RoundTrip(req)
	}
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	applied, err := resource.New(withVersion(a.f.t, raw))
	if err != nil {
		return nil, err
	}
	live, err := a.f.server.Change(k8s.ConfigMap, applied.Key(), func(o map[string]any) {
		o["data"], _ = applied.Field("data")
	})
	if err != nil {
		return nil, err
	}
	body, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Request: req, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(body))), ContentLength: int64(len(body)),
	}, nil
}

// TestApplyOwnsWhatItRemoves: before an apply that is to remove a field of an
// earlier update, the operator's applies become the owner of the field. The apply
// goes on with the object as it is then.
func TestApplyOwnsWhatItRemoves(t *testing.T) {
	f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Apply})
	f.wrap = func(next http.RoundTripper) http.RoundTripper { return applier{next, f} }
	live := f.given(configMap(map[string]any{"k": "1", "gone": "x"}), func(o map[string]any) {
		meta, _ := o["metadata"].(map[string]any)
		meta["managedFields"] = []any{map[string]any{
			"manager": "op", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"f:data": map[string]any{"f:k": map[string]any{}, "f:gone": map[string]any{}}},
		}}
	})
	p := f.plan([]*resource.Resource{live}, configMap(map[string]any{"k": "1"}))

	report := f.run(t.Context(), p)

	require.Equal(t, []string{"get ConfigMap ns/c", "patch ConfigMap ns/c"}, f.asked(), "the apply is the applier's")
	r := report.Results[0]
	require.NoError(t, r.Err)
	require.Equal(t, plan.VerbApply, r.Action.Verb)
	require.True(t, r.Action.Owned)
	require.False(t, p.Writes[0].Owned, "the planned action is never changed")
	require.NotEqual(t, live.ResourceVersion(), r.Action.Live.ResourceVersion())
	require.True(t, r.Accepted)
	data, _ := f.server.Get(k8s.ConfigMap, key("c")).Field("data")
	require.Equal(t, map[string]any{"k": "1"}, data)
}

// withVersion gives the body of an apply a resourceVersion, which it has none of.
func withVersion(t *testing.T, raw []byte) []byte {
	t.Helper()
	out := strings.Replace(string(raw), `"metadata":{`, `"metadata":{"resourceVersion":"1",`, 1)
	require.NotEqual(t, string(raw), out)
	return []byte(out)
}

func pathsOf(fields []plan.FieldChange) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Path)
	}
	return out
}
