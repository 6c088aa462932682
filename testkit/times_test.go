package testkit

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler"
)

// timed returns a handler that states a condition as meta.SetStatusCondition does, by a clock
// that is a minute further at each call.
func timed(reason string) handler.Handler {
	var minutes atomic.Int64
	return handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		now := metav1.NewTime(time.Date(2026, 1, 1, 0, int(minutes.Add(1)), 0, 0, time.UTC))
		var conditions []metav1.Condition
		meta.SetStatusCondition(&conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: now})
		return &handler.SyncResponse{
			Status:       map[string]any{"conditions": conditions, "zones": []any{map[string]any{"name": "a", "conditions": conditions}}},
			KeepChildren: true,
		}, nil
	})
}

func TestGoldenWithoutTimesOfConditions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.yaml")
	h := timed("Ran")
	t.Setenv(goldenVariable, "1")
	Sync(t, sites(), h, site(nil)).Golden(path)
	t.Setenv(goldenVariable, "")
	Sync(t, sites(), h, site(nil)).Golden(path)
	before := site(nil)
	before["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "True", "reason": "Ran", "message": "", "lastTransitionTime": "2025-01-01T00:00:00Z",
	}}}
	Sync(t, sites(), h, before).Golden(path)

	f := fake(t, func(tb testing.TB) { Sync(tb, sites(), timed("Walked"), site(nil)).Golden(path) })
	require.Contains(t, f.failure(), "reason: Walked", "the rest of a condition counts")
}

func TestReplayWithoutTimesOfConditions(t *testing.T) {
	t.Parallel()
	h := timed("Ran")
	text := recordingOf(t, h, siteRequest(t, "hello"))
	require.Contains(t, text, "lastTransitionTime")
	Replay(t, strings.NewReader(text), h)

	f := fake(t, func(tb testing.TB) { Replay(tb, strings.NewReader(text), timed("Walked")) })
	require.Contains(t, f.failure(), `status conditions[0].reason: recorded "Ran", now "Walked"`)
	require.NotContains(t, f.failure(), "lastTransitionTime")
}

func TestPlanComparesConditionsByType(t *testing.T) {
	t.Parallel()
	plan := func(tb testing.TB) *Plan { return Sync(tb, sites(), timed("Ran"), site(nil)) }
	plan(t).WantStatus(map[string]any{"conditions": []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ran", LastTransitionTime: metav1.Now(), // by another clock
	}}})
	f := fake(t, func(tb testing.TB) {
		plan(tb).WantStatus(map[string]any{"conditions": []metav1.Condition{{Type: "Live", Status: metav1.ConditionTrue}}})
	})
	require.Contains(t, f.failure(), "status.conditions.Live: planned absent")
}

func TestKitComparesConditionsByType(t *testing.T) {
	t.Parallel()
	kit := New(t, cluster, widgets("kit-conditions"), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Status: map[string]any{"conditions": []metav1.Condition{
			{Type: "Live", Status: metav1.ConditionTrue, Reason: "Runs", Message: "since long"},
			{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Waits", Message: "for a Pod"},
		}}}, nil
	}))
	kit.Create(widget("one", nil))
	kit.Eventually(widgetWith("one", map[string]any{"conditions": []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))},
		{Type: "Live", Status: metav1.ConditionTrue, Reason: "Runs"},
	}}), patience)
	kit.Eventually(widgetWith("one", map[string]any{"conditions": []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Message: "for a Pod"}}}), patience)
	f := fake(t, func(tb testing.TB) {
		k := *kit
		k.t = tb
		k.Eventually(widgetWith("one", map[string]any{"conditions": []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}}), time.Millisecond)
	})
	require.Contains(t, f.failure(), fmt.Sprintf("status.conditions.Ready.status: live %q, want %q", "False", "True"))
}

func widgetWith(name string, status map[string]any) map[string]any {
	out := widget(name, nil)
	out["status"] = status
	return out
}
