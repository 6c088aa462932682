package apply_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	cannot := func(reason string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "c", errors.New(reason))
	}
	_ = cannot
	const trial = "dry create ConfigMap ns/roperator-dry-run" // what a creation would make of the child
	for name, tc := range map[string]struct {
		reason   string
		strategy config.UpdateStrategy
		adopt    bool
		dryRun   bool
		held     string         // fieldsV1 of the operator's entry in managedFields; empty: there is none
		denied   error          // the answer to updates; nil: they are taken
		given    map[string]any // the data that the child was created with
		now      string         // its data.k as it is now
		planned  plan.Verb
		asked    []string
		want     apply.Result // without the action, the live object and its fields, and how long it took
		verb     plan.Verb    // of the last action
		failed   string       // what its error says; empty: there is none
	}{
		"recreate/spelled otherwise": {
			reason: "the update would change the mark alone, so the child stays", strategy: config.Recreate,
			given: map[string]any{"k": "1"}, now: "1", planned: plan.VerbRecreate,
			asked: []string{"dry update ConfigMap ns/c", trial, "patch ConfigMap ns/c"}, verb: plan.VerbMark,
			want: apply.Result{Wrote: true, Accepted: true, Rest: []merge.Difference{{Path: "data.k", Live: "1", Desired: "1000m"}}},
		},
		"recreate/different": {
			reason: "the child has to go", strategy: config.Recreate,
			given: map[string]any{"k": "2"}, now: "2", planned: plan.VerbRecreate,
			asked: []string{"dry update ConfigMap ns/c", trial, "dry create ConfigMap ns/c", "delete ConfigMap ns/c"}, verb: plan.VerbRecreate,
			want: apply.Result{Wrote: true},
		},
		"claim": {
			reason: "the object becomes a child now, and is brought in line by the next pass", strategy: config.Replace, adopt: true,
			now: "2", planned: plan.VerbCreate,
			asked: []string{"create ConfigMap ns/c", "get ConfigMap ns/c", "patch ConfigMap ns/c"}, verb: plan.VerbCreate,
			want: apply.Result{Wrote: true, Claimed: true, ShownNext: true},
		},
		"claim/in a dry run": {
			reason: "what becomes of the child is foreseen, too", strategy: config.Replace, adopt: true, dryRun: true,
			now: "2", planned: plan.VerbCreate,
			asked: []string{"dry create ConfigMap ns/c", "get ConfigMap ns/c", "dry patch ConfigMap ns/c", "dry update ConfigMap ns/c"}, verb: plan.VerbUpdate,
			want: apply.Result{Skipped: true, Would: plan.VerbUpdate, ShownNext: true},
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
			f.admitting(tc.denied)
			if tc.held != "" {
				f.store.HoldFields(live[0], []string{tc.held})
			}
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
				require.NotContains(t, pathsOf(got.Found.Fields), "data.k", "only what makes it a child")
				require.Equal(t, key("c"), got.Found.Live.Key())
				got.Fields, got.Found = nil, nil
			}
			if tc.failed == "" {
				require.Positive(t, got.Took)
				got.Action, got.Live, got.Took = nil, nil, 0
				require.Equal(t, tc.want, got, tc.reason)
			} else {
				require.ErrorContains(t, got.Err, tc.failed, tc.reason)
				require.False(t, got.Accepted)
			}
			require.Equal(t, got.Wrote, !report.FirstWrite.IsZero())
		})
	}
}

func pathsOf(fields []plan.FieldChange) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Path)
	}
	return out
}
