package apply_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// threeTypes are written in this order: Secrets, ConfigMaps, of which the
// undesired ones go before, and Things.
func threeTypes() []config.Child {
	return []config.Child{
		{Type: k8s.Secret, Strategy: config.Replace},
		{Type: k8s.ConfigMap, Strategy: config.Replace, DeleteFirst: true},
		{Type: thing(), Strategy: config.Replace},
	}
}

// oldAndNew returns a fixture with an old child of each of three types, and the
// plan by which a new one of each takes its place.
func oldAndNew(t *testing.T) (*fixture, *plan.Plan) {
	t.Helper()
	f := newFixture(t, "ns", false, threeTypes()...)
	var live []*resource.Resource
	var desired []any
	for _, c := range threeTypes() {
		live = append(live, f.given(child(c.Type, "old", nil), nil))
		desired = append([]any{child(c.Type, "new", nil)}, desired...) // the handler's order doesn't count
	}
	return f, f.plan(live, desired...)
}

// TestRunOrder: the types go in the order of the configuration. Deletes go last,
// but for those of a type with DeleteFirst.
func TestRunOrder(t *testing.T) {
	f, p := oldAndNew(t)
	report := f.run(t.Context(), p)
	require.Equal(t, []string{
		"create Secret ns/new", "delete ConfigMap ns/old", "create ConfigMap ns/new", "create Thing ns/new",
	}, f.server.Writes()[:4])
	require.ElementsMatch(t, []string{"delete Secret ns/old", "delete Thing ns/old"}, f.server.Writes()[4:])
	require.Len(t, report.Results, 6)
	for _, r := range report.Results {
		require.NoError(t, r.Err)
		require.True(t, r.Wrote)
	}
	require.False(t, report.FirstWrite.IsZero())
	held, ok := f.store.Object(report.Results[0].Action.Ref)
	require.True(t, ok, "the answers are in the store")
	require.Equal(t, report.Results[0].Live, held)
}

// TestRunWaitsForAType: no child of a type is written before all of the type
// before are.
func TestRunWaitsForAType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, "ns", false, threeTypes()...)
		var desired []any
		for i := range 3 {
			desired = append(desired, child(k8s.Secret, fmt.Sprint("s", i), nil), child(k8s.ConfigMap, fmt.Sprint("c", i), nil))
		}
		p := f.plan(nil, desired...)
		slow := make(chan struct{})
		f.server.SetHooks(fakeapi.Hooks{After: func(r fakeapi.Request) error {
			if r.Key.Name == "s1" {
				<-slow
			}
			return nil
		}})
		done := make(chan apply.Report)
		go func() { done <- f.run(context.Background(), p) }()
		synctest.Wait()
		require.ElementsMatch(t, []string{"create Secret ns/s0", "create Secret ns/s1", "create Secret ns/s2"}, f.asked())
		close(slow)
		require.Len(t, (<-done).Results, 6)
		require.Len(t, f.asked(), 6)
	})
}

// TestRunFailures: what is still done after an error, and what isn't.
func TestRunFailures(t *testing.T) {
	fails := func(verb string, of resource.Type) fakeapi.Hooks {
		return fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == verb && r.Type == of {
				return apierrors.NewInternalError(errors.New("no"))
			}
			return nil
		}}
	}
	for name, tc := range map[string]struct {
		reason  string
		hooks   fakeapi.Hooks
		refused bool
		want    []string
	}{
		"a create of the first type": {
			reason: "other types are written, but nothing is deleted any more", hooks: fails("create", k8s.Secret),
			want: []string{"create Secret ns/new", "create ConfigMap ns/new", "create Thing ns/new"},
		},
		"a create of the last type": {
			reason: "what was deleted early is deleted", hooks: fails("create", thing()),
			want: []string{"create Secret ns/new", "delete ConfigMap ns/old", "create ConfigMap ns/new", "create Thing ns/new"},
		},
		"an early delete": {
			reason: "it is an error like any other", hooks: fails("delete", k8s.ConfigMap),
			want: []string{"create Secret ns/new", "delete ConfigMap ns/old", "create ConfigMap ns/new", "create Thing ns/new"},
		},
		"a write that was refused earlier": {
			reason: "the children aren't all as desired, so the old ones may still be needed", refused: true,
			want: []string{"create Secret ns/new", "create ConfigMap ns/new", "create Thing ns/new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := oldAndNew(t)
			f.server.SetHooks(tc.hooks)
			if tc.refused {
				p.Refused = append(p.Refused, plan.Refusal{Failure: plan.Failure{Ref: p.Writes[0].Ref, Err: errors.New("refused")}})
			}
			f.run(t.Context(), p)
			require.Equal(t, tc.want, f.asked(), tc.reason)
		})
	}
}

// TestRunStops: once the context has ended, no delete is begun, and an action
// that finds no free slot fails.
func TestRunStops(t *testing.T) {
	f, p := oldAndNew(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.server.SetHooks(fakeapi.Hooks{After: func(r fakeapi.Request) error {
		if r.Verb == "create" && r.Type == thing() {
			cancel()
		}
		return nil
	}})
	f.run(ctx, p)
	require.NotContains(t, f.asked(), "delete Secret ns/old")
	require.NotContains(t, f.asked(), "delete Thing ns/old")
}

// namespaceTerminating is the answer to a create in such a namespace.
func namespaceTerminating() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: "namespace ns is being terminated",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}}
}

// TestOneAnswerForATerminatingNamespace: where nothing can be created, one try is
// enough.
func TestOneAnswerForATerminatingNamespace(t *testing.T) {
	const count = 40
	for name, tc := range map[string]struct {
		reason    string
		namespace string   // of the parent
		slots     int      // for requests at the same time
		expected  []string // the namespaces of the last pass
		exists    bool     // the namespace isn't being deleted
		tries     int
		found     []string
	}{
		"one at a time":            {reason: "the first answer counts for all others", namespace: "ns", slots: 1, tries: 1, found: []string{"ns"}},
		"the parent's, known":      {reason: "it can't exist anew before the parent is gone", namespace: "ns", slots: 100, expected: []string{"ns"}, tries: 0, found: []string{"ns"}},
		"another, known":           {reason: "one create finds out whether it exists anew", slots: 100, expected: []string{"ns"}, tries: 1, found: []string{"ns"}},
		"another, there again":     {reason: "then all are created", slots: 100, expected: []string{"ns"}, exists: true, tries: count},
		"another, of another name": {reason: "nothing is known of this one", slots: 1, expected: []string{"elsewhere"}, tries: 1, found: []string{"ns"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.namespace, false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
			f.slots = make(chan struct{}, tc.slots)
			f.server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error {
				if tc.exists {
					return nil
				}
				return namespaceTerminating()
			}})
			var desired []any
			for i := range count {
				desired = append(desired, child(k8s.ConfigMap, fmt.Sprint("c", i), nil))
			}

			report := f.run(t.Context(), f.plan(nil, desired...), tc.expected...)

			require.Len(t, f.asked(), tc.tries, tc.reason)
			require.Equal(t, tc.found, report.Terminating, tc.reason)
			require.Len(t, report.Results, count)
			for _, r := range report.Results {
				require.NoError(t, r.Err, "it is no error")
				require.Equal(t, tc.exists, r.Wrote)
			}
		})
	}
}

// TestPanic: a panic while a child is written is the error of that child alone.
func TestPanic(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		of     resource.Type
		text   string
	}{
		"ConfigMap": {reason: "the error says what the panic said", of: k8s.ConfigMap, text: "ConfigMap ns/bad: create: panic: the value s3cret"},
		"Secret":    {reason: "the panic may have quoted a value", of: k8s.Secret, text: "Secret ns/bad: create: panic: (hidden)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, threeTypes()...)
			old := f.given(child(thing(), "old", nil), nil)
			f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
				if r.Key.Name == "bad" {
					panic("the value s3cret")
				}
				return nil
			}})
			p := f.plan([]*resource.Resource{old}, child(tc.of, "bad", nil), child(tc.of, "good", nil), child(thing(), "new", nil))

			report := f.run(t.Context(), p)

			require.Len(t, report.Results, 3, "and the undesired child stays")
			require.EqualError(t, report.Results[0].Err, tc.text, tc.reason)
			require.Equal(t, plan.VerbCreate, report.Results[0].Action.Verb)
			for _, r := range report.Results[1:] {
				require.NoError(t, r.Err)
				require.True(t, r.Wrote)
			}
			require.Contains(t, f.log.String(), "write panicked")
			require.Equal(t, tc.of != k8s.Secret, strings.Contains(f.log.String(), "s3cret"), tc.reason)
		})
	}
}
