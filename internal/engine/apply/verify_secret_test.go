package apply_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestVerify_Secret: the mark of a Secret doesn't tell whether a value that isn't as
// desired is what a webhook has made of the desired one. Dry runs tell. Nothing else
// passes for it: the operator owns the field as well if the desired value has changed
// while no operator ran.
func TestVerify_Secret(t *testing.T) {
	const before, after, theirs = "YmVmb3Jl", "YWZ0ZXI=", "dGhlaXJz"
	const update, trial, write = "dry update Secret ns/c", "dry create Secret ns/roperator-dry-run", "update Secret ns/c"
	fixed := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "c", nil)
	fixed.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeForbidden, Message: "field is immutable when `immutable` is set", Field: "data"}}
	for name, tc := range map[string]struct {
		reason   string
		strategy config.UpdateStrategy
		now      string            // the live value
		injected map[string]string // what a webhook makes of every value, by the request's verb
		denied   map[string]error  // the answers to dry runs, by their verb
		refused  error             // the answer to writes, too
		asked    []string
		verb     plan.Verb
		failed   string
		rest     bool // it stays as it is
	}{
		"changed": {
			reason: "the desired state was another one while no operator ran", strategy: config.Replace, now: before,
			asked: []string{update, trial, write}, verb: plan.VerbUpdate,
		},
		"a webhook's": {
			reason: "an update leads to what is there", strategy: config.Replace, now: theirs, injected: map[string]string{"create": theirs, "update": theirs},
			asked: []string{update}, verb: plan.VerbVerify, rest: true,
		},
		"a webhook's at creations": {
			reason: "a creation leads to what is there", strategy: config.Replace, now: theirs, injected: map[string]string{"create": theirs},
			asked: []string{update, trial}, verb: plan.VerbVerify, rest: true,
		},
		"a webhook's, to be recreated": {
			reason: "a new one would be the same", strategy: config.Recreate, now: theirs, injected: map[string]string{"create": theirs},
			asked: []string{update, trial}, verb: plan.VerbVerify, rest: true,
		},
		"no answer about the update": {
			reason: "a creation tells", strategy: config.Replace, now: theirs, injected: map[string]string{"create": theirs},
			denied: map[string]error{"update": apierrors.NewBadRequest(`admission webhook "a" does not support dry run`)},
			asked:  []string{update, trial}, verb: plan.VerbVerify, rest: true,
		},
		"no answers": {
			reason: "what nothing explains is written", strategy: config.Replace, now: before,
			denied: map[string]error{"update": apierrors.NewBadRequest(`admission webhook "a" does not support dry run`), "create": apierrors.NewBadRequest(`admission webhook "a" does not support dry run`)},
			asked:  []string{update, trial, write}, verb: plan.VerbUpdate,
		},
		"immutable": {
			reason: "an error that names the field, not a Secret that stays as it is for good", strategy: config.Replace, now: before,
			denied: map[string]error{"update": fixed}, refused: fixed,
			asked: []string{update, trial, write, "dry create Secret ns/c"}, verb: plan.VerbUpdate, failed: "can't change the immutable field data",
		},
		"immutable, to be recreated": {
			reason: "the new value is wanted", strategy: config.Recreate, now: before, denied: map[string]error{"update": fixed}, refused: fixed,
			asked: []string{update, trial, update, trial, "dry create Secret ns/c", "delete Secret ns/c"}, verb: plan.VerbRecreate,
		},
		"conflict": {
			reason: "somebody has changed it", strategy: config.Replace, now: before,
			denied: map[string]error{"update": apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "c", errors.New("changed"))},
			asked:  []string{update}, verb: plan.VerbVerify,
		},
		"outage": {
			reason: "the next pass asks again", strategy: config.Replace, now: before, denied: map[string]error{"update": apierrors.NewServiceUnavailable("busy")},
			asked: []string{update}, verb: plan.VerbVerify, failed: "503",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: k8s.Secret, Strategy: tc.strategy})
			live := f.given(child(k8s.Secret, "c", map[string]any{"k": before}), saying(tc.now))
			f.store.HoldFields(live, []string{`{"f:data":{"f:k":{}}}`}) // nobody else has changed it
			f.server.SetHooks(fakeapi.Hooks{
				Before: func(r fakeapi.Request) error {
					switch {
					case r.DryRun:
						return tc.denied[r.Verb]
					case r.Verb == "update":
						return tc.refused
					}
					return nil
				},
				Admit: func(r fakeapi.Request, object map[string]any) error {
					if value := tc.injected[r.Verb]; value != "" {
						object["data"] = map[string]any{"k": value}
					}
					return nil
				},
			})
			p := f.plan([]*resource.Resource{live}, child(k8s.Secret, "c", map[string]any{"k": after}))
			require.Len(t, p.Writes, 1)
			require.Equal(t, plan.VerbVerify, p.Writes[0].Verb)
			got := f.run(t.Context(), p).Results[0]
			require.Equal(t, tc.asked, f.asked(), tc.reason)
			require.Equal(t, tc.verb, got.Action.Verb, tc.reason)
			require.Equal(t, tc.rest, got.Accepted && len(got.Rest) == 1, tc.reason)
			if tc.failed == "" {
				require.NoError(t, got.Err, tc.reason)
			} else {
				require.ErrorContains(t, got.Err, tc.failed, tc.reason)
			}
		})
	}
}
