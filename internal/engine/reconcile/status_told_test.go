package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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

// TestReady_StatusRefused: the API server refuses the handler's status, and the conditions say so beside the one that is
// there. The refused one is tried again in growing distance.
func TestReady_StatusRefused(t *testing.T) {
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "parents"}, "one", errors.New("the webhook says no"))
	for name, tc := range map[string]struct {
		reason  string
		first   string // the spec before, whose status is accepted; empty: the parent is new
		err     error
		all     bool // of any status; else of the handler's new one alone
		says    string
		allowed int64 // writes of a status in an hour, the refused ones among them
	}{
		"New":     {"there is no status yet", "", no, false, "reason:WriteRefused status:False type:Ready", 40},
		"Changed": {"the status of before stays", "good", no, false, "reason:WriteRefused status:False type:Ready", 40},
		"All":     {"nothing can be said", "good", no, true, "reason:Ready status:True type:Ready", 80},
		"Outage":  {"that will pass", "good", apierrors.NewInternalError(errors.New("etcd")), false, "reason:Ready status:True type:Ready", 40},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := rig.Config()
				cfg.ReadyCondition = true
				server := rig.Server()
				var writes atomic.Int64
				server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, object map[string]any) error {
					if r.Subresource != "status" {
						return nil
					}
					writes.Add(1)
					spec, _ := object["spec"].(map[string]any)
					status, _ := object["status"].(map[string]any)
					if spec["value"] == "bad" && (tc.all || status["value"] == "bad") {
						return tc.err
					}
					return nil
				}})
				r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
				if tc.first != "" {
					r.Create("one", tc.first)
					rig.Elapse(time.Minute)
					r.SetSpec("one", "bad")
				} else {
					r.Create("one", "bad")
				}
				rig.Elapse(time.Hour)
				writes.Store(0)
				rig.Elapse(time.Hour)
				require.LessOrEqual(t, writes.Load(), tc.allowed, "in growing distance")
				require.Positive(t, writes.Load())
				parent := r.Get(sample.ParentType(), "one")
				conditions, _ := parent.Field("status", "conditions")
				require.Contains(t, fmt.Sprint(conditions), tc.says, tc.reason)
				value, _ := parent.Field("status", "value")
				if tc.first == "" {
					require.Nil(t, value)
				} else {
					require.Equal(t, tc.first, value, tc.reason)
				}
				version := parent.ResourceVersion()
				rig.Elapse(time.Hour)
				require.Equal(t, version, r.Get(sample.ParentType(), "one").ResourceVersion(), "it is said once")

				r.SetSpec("one", "fine")
				rig.Elapse(time.Minute)
				parent = r.Get(sample.ParentType(), "one")
				r.Stop()
				conditions, _ = parent.Field("status", "conditions")
				require.Contains(t, fmt.Sprint(conditions), "reason:Ready status:True type:Ready")
				value, _ = parent.Field("status", "value")
				require.Equal(t, "fine", value)
			})
		})
	}
}

// TestReady_StatusInvalid: a status that the engine refuses is an invalid response.
func TestReady_StatusInvalid(t *testing.T) {
	condition := func(fields map[string]any) map[string]any { return map[string]any{"conditions": []any{fields}} }
	for name, tc := range map[string]struct {
		status any
		err    error // beside the status
		says   string
		event  string
	}{
		"No reason":       {condition(map[string]any{"type": "Live", "status": "True"}), nil, "InvalidResponse", "InvalidResponse"},
		"Ready's status":  {condition(map[string]any{"type": "Ready", "status": true, "reason": "A"}), nil, "InvalidResponse", "InvalidResponse"},
		"No object":       {"fine", nil, "InvalidResponse", "InvalidResponse"},
		"Not encodable":   {map[string]any{"f": func() {}}, nil, "InvalidResponse", "InvalidResponse"},
		"Beside an error": {condition(map[string]any{"type": "Live", "status": "True"}), errors.New("broken"), "HandlerFailed", "SyncFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := rig.Config()
				cfg.ReadyCondition = true
				r := rig.Start(t, rig.Server(), cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					return &handler.SyncResponse{Status: tc.status}, tc.err
				}))
				r.Create("one", "v")
				rig.Elapse(time.Hour)
				conditions, _ := r.Get(sample.ParentType(), "one").Field("status", "conditions")
				events := fmt.Sprint(recorded(r))
				r.Stop()
				require.Contains(t, fmt.Sprint(conditions), "reason:"+tc.says+" status:False type:Ready")
				require.Contains(t, events, tc.event)
			})
		})
	}
}

// TestStatusRefused_OfAnError: a handler that fails is called again when it says. The status beside its error, which the API
// server refuses, isn't sent with each call, but in growing distance, and at once when something has happened.
func TestStatusRefused_OfAnError(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		var calls, sent atomic.Int64
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Subresource != "status" {
				return nil
			}
			sent.Add(1)
			return no()
		}})
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			calls.Add(1)
			return &handler.SyncResponse{Status: map[string]any{"phase": "Waiting"}, Resync: 10 * time.Second}, errors.New("no route to the cloud")
		}))
		r.Create("one", "v")
		rig.Elapse(time.Hour)
		require.GreaterOrEqual(t, calls.Load(), int64(350))
		require.LessOrEqual(t, sent.Load(), int64(30))
		before := sent.Load()
		r.SetSpec("one", "w")
		rig.Elapse(10 * time.Second)
		require.Greater(t, sent.Load(), before, "the edit may have ended the cause")
		r.Stop()
	})
}

// A handler that returns another value each time that it is called, as for a password, is asked in growing
// distance while the API server refuses that.
func TestRefused_AnotherValueEachTime(t *testing.T) {
	for name, refuses := range map[string]func(fakeapi.Request) bool{
		"Child":  func(r fakeapi.Request) bool { return r.Type == k8s.ConfigMap && r.Verb == "create" },
		"Status": func(r fakeapi.Request) bool { return r.Subresource == "status" },
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				var calls, sent atomic.Int64
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if !refuses(r) {
						return nil
					}
					sent.Add(1)
					return no()
				}})
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					value := fmt.Sprint(calls.Add(1))
					if name == "Status" {
						return &handler.SyncResponse{Status: map[string]any{"value": value}}, nil
					}
					return &handler.SyncResponse{Children: []any{rig.Copied("one", value)}}, nil
				}))
				r.Create("one", "v")
				rig.Elapse(time.Hour)
				require.Greater(t, sent.Load(), int64(5))
				require.LessOrEqual(t, sent.Load(), int64(30))
				require.LessOrEqual(t, calls.Load(), int64(60))
				r.Stop()
			})
		})
	}
}
