package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// TestFinalize_ChildrenGo: Finalize is called again as the children go that it doesn't want, however long it says to wait
// otherwise.
func TestFinalize_ChildrenGo(t *testing.T) {
	for name, teardown := range map[string]config.TeardownPolicy{"GC": config.TeardownGC, "Ordered": config.TeardownOrdered} {
		for holds, finalizers := range map[string][]any{"at once": nil, "later": {"example.com/holds"}} {
			t.Run(name+" "+holds, func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					cfg := rig.Config()
					cfg.Teardown = teardown
					r := rig.Start(t, rig.Server(), cfg, handler.Funcs{
						SyncFunc: rig.Copier,
						FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
							if req.Children.Len() > 0 {
								return &handler.FinalizeResponse{Retry: time.Hour, Children: []any{}}, nil
							}
							return &handler.FinalizeResponse{Finalized: true}, nil
						},
					})
					r.Create("one", "v")
					rig.Elapse(time.Minute)
					hold := func(by []any) {
						r.Change(k8s.ConfigMap, "one", func(o map[string]any) {
							o["metadata"].(map[string]any)["finalizers"] = by
						})
					}
					hold(finalizers)
					rig.Elapse(time.Minute)
					require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
					rig.Elapse(time.Minute)
					if len(finalizers) > 0 {
						require.NotNil(t, r.Get(sample.ParentType(), "one"))
						hold([]any{})
						rig.Elapse(time.Minute)
					}
					left := r.Get(sample.ParentType(), "one")
					r.Stop()
					require.Nil(t, left)
				})
			})
		}
	}
}

// TestFinalize_DeleteRefused: a child that Finalize doesn't want can't be deleted. Finalize's status is written all the
// same, and it is called again when it says.
func TestFinalize_DeleteRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		children []any
		err      error
		retry    time.Duration
		calls    [2]int // at least and at most, in an hour
		status   any
		stands   string
	}{
		"Refused":        {"by the backoff, as without a refusal", []any{}, no(), 0, [2]int{10, 30}, "Removing", "WriteRefused"},
		"Refused, Retry": {"when Finalize says, and with each try", []any{}, no(), time.Minute, [2]int{60, 90}, "Removing", "WriteRefused"},
		"Refused, later": {"the delete doesn't wait for that", []any{}, no(), 2 * time.Hour, [2]int{10, 30}, "Removing", "WriteRefused"},
		"Fails, Retry":   {"by the backoff, as after any failure", []any{}, errors.New("broken connection"), time.Minute, [2]int{10, 30}, "Removing", "WriteFailed"},
		"Fails, later":   {"the delete doesn't wait for that", []any{}, errors.New("broken connection"), 2 * time.Hour, [2]int{10, 30}, "Removing", "WriteFailed"},
		"Status":         {"a refused status is no reason to wait, nor to send it with each call", nil, nil, time.Minute, [2]int{60, 90}, nil, "WriteRefused"},
		"Invalid":        {"nothing of an invalid response is carried out", []any{"no child"}, nil, time.Minute, [2]int{10, 30}, nil, "InvalidResponse"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := rig.Config()
				cfg.ReadyCondition = true
				calls, deletes, statuses := 0, 0, 0
				r := rig.Start(t, rig.Server(), cfg, handler.Funcs{
					SyncFunc: rig.Copier,
					FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
						calls++
						return &handler.FinalizeResponse{Children: tc.children, Retry: tc.retry, Status: map[string]any{"phase": "Removing"}}, nil
					},
				})
				r.Create("one", "v")
				rig.Elapse(time.Minute)
				r.Server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
					if q.Verb == "delete" && q.Type == k8s.ConfigMap {
						deletes++
						return tc.err
					}
					return nil
				}, Admit: func(q fakeapi.Request, object map[string]any) error {
					status, _ := object["status"].(map[string]any)
					if q.Subresource == "status" && name == "Status" && status["phase"] != nil {
						statuses++
						return no()
					}
					return nil
				}})
				require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
				rig.Elapse(time.Hour)
				parent := r.Get(sample.ParentType(), "one")
				r.Stop()
				phase, _ := parent.Field("status", "phase")
				require.Equal(t, tc.status, phase, tc.reason)
				conditions, _ := parent.Field("status", "conditions")
				require.Contains(t, fmt.Sprint(conditions), "reason:"+tc.stands+" status:False type:Ready")
				require.GreaterOrEqual(t, calls, tc.calls[0], tc.reason)
				require.LessOrEqual(t, calls, tc.calls[1], tc.reason)
				require.LessOrEqual(t, deletes, calls)
				require.LessOrEqual(t, statuses, 30, "a refused status is tried again in growing distance")
				if tc.stands == "WriteRefused" {
					require.LessOrEqual(t, deletes, 30, "a refused delete is tried again in growing distance")
				}
			})
		})
	}
}

// no returns a webhook's refusal.
func no() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "one", errors.New("the webhook says no"))
}
