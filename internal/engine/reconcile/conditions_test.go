package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// saysReady is a Sync that wants what rig.Copier wants, and says in a condition that has
// neither time nor generation whether spec.value is "up".
func saysReady(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	resp, err := rig.Copier(ctx, req)
	if err != nil {
		return nil, err
	}
	ready := map[string]any{"type": "Ready", "status": "False", "reason": "Down"}
	if value, _ := req.Parent.Field("spec", "value"); value == "up" {
		ready["status"], ready["reason"] = "True", "Up"
	}
	resp.Status = map[string]any{"conditions": []any{ready}}
	return resp, nil
}

// readySince returns status, time and generation of the parent's condition.
func readySince(t *testing.T, r *rig.Rig, name string) (status, since string, generation int64) {
	t.Helper()
	list, _ := r.Get(sample.ParentType(), name).Field("status", "conditions")
	conditions, _ := list.([]any)
	require.Len(t, conditions, 1)
	c, _ := conditions[0].(map[string]any)
	status, _ = c["status"].(string)
	since, _ = c["lastTransitionTime"].(string)
	generation, _ = c["observedGeneration"].(int64)
	require.Contains(t, c, "message")
	return status, since, generation
}

// A condition has the time of its last transition, over changes that are none and over a
// restart, and a status that stays the same costs no request.
func TestConditions_TimesAreTransitions(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		began := time.Now().UTC()
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(saysReady))
		r.Create("one", "up")
		rig.Elapse(time.Minute)
		expect := func(status string, since time.Time, generation int64) {
			t.Helper()
			s, at, g := readySince(t, r, "one")
			require.Equal(t, []any{status, since.Format(time.RFC3339), generation}, []any{s, at, g})
		}
		expect("True", began, 1)

		r.SetSpec("one", "down")
		rig.Elapse(time.Minute)
		expect("False", began.Add(time.Minute), 2)
		r.SetSpec("one", "downer")
		rig.Elapse(time.Minute)
		expect("False", began.Add(time.Minute), 3)
		r.Stop()

		before := len(server.Writes())
		r = rig.Start(t, server, rig.Config(), handler.SyncFunc(saysReady))
		rig.Elapse(time.Hour)
		require.Len(t, server.Writes(), before, "a restart writes nothing")
		expect("False", began.Add(time.Minute), 3)
		r.Stop()
	})
}

// The API server drops the times, since the schema of the conditions doesn't have them.
func TestConditions_TimesArePruned(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		server.SetHooks(fakeapi.Hooks{Admit: func(q fakeapi.Request, object map[string]any) error {
			if q.Subresource == "status" {
				status, _ := object["status"].(map[string]any)
				for _, c := range status["conditions"].([]any) {
					delete(c.(map[string]any), "lastTransitionTime")
				}
			}
			return nil
		}})
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(saysReady))
		r.Create("one", "up")
		rig.Elapse(10 * time.Second)
		before := len(server.Writes())
		r.Change(k8s.ConfigMap, "one", func(object map[string]any) { object["metadata"].(map[string]any)["labels"].(map[string]any)["a"] = "b" })
		rig.Elapse(time.Hour)
		require.Len(t, server.Writes(), before)
		r.Stop()
	})
}

// A status that is refused is sent again as it was, by the backoff.
func TestConditions_RefusedStatus(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		began := time.Now().UTC()
		server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
			if q.Subresource == "status" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Parent"}, q.Key.Name, nil)
			}
			return nil
		}})
		cfg := rig.Config()
		cfg.MaxErrorBackoff = time.Minute
		r := rig.Start(t, server, cfg, handler.SyncFunc(saysReady))
		r.Create("one", "up")
		rig.Elapse(10 * time.Minute)
		require.Less(t, len(server.Requests()), 60)
		server.SetHooks(fakeapi.Hooks{})
		rig.Elapse(2 * time.Minute)
		_, since, _ := readySince(t, r, "one")
		require.Equal(t, began.Format(time.RFC3339), since, "it has been true since then")
		r.Stop()
	})
}

// A condition without a reason makes the response invalid: nothing is written.
func TestConditions_WithoutReason(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			resp, err := rig.Copier(ctx, req)
			resp.Status = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
			return resp, err
		}))
		r.Create("one", "up")
		rig.Elapse(time.Minute)
		require.NotEmpty(t, r.Errors("one"))
		require.ErrorContains(t, r.Errors("one")[0], "Parent ns/one: status: conditions[0]: Ready: reason: missing")
		require.Nil(t, r.Get(k8s.ConfigMap, "one"))
		r.Stop()
	})
}
