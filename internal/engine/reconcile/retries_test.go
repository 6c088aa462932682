package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
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
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestRetry_StatusBehindAnnotations: another client annotates the parent more often than the handler returns. Each status is
// of an older state of the metadata, and is written all the same. (S54)
func TestRetry_StatusBehindAnnotations(t *testing.T) {
	for _, every := range []time.Duration{5 * time.Second, time.Second, 100 * time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					<-time.After(2100 * time.Millisecond)
					return rig.Copier(ctx, req)
				}))
				r.Create("one", "v")
				annotate := func(during time.Duration) {
					for i := range int(during / every) {
						r.Change(sample.ParentType(), "one", func(o map[string]any) {
							metaOf(o)["annotations"] = map[string]any{"heartbeat": fmt.Sprint(i)}
						})
						rig.Elapse(every)
					}
				}
				annotate(20 * time.Second)
				require.Equal(t, map[string]any{"value": "v", "children": int64(1), "observedGeneration": int64(1)}, statusOf(r))
				annotate(10 * time.Minute)
				require.Less(t, statusUpdates(server), 10)
				r.SetSpec("one", "v2")
				annotate(20 * time.Second)
				require.Equal(t, map[string]any{"value": "v2", "children": int64(1), "observedGeneration": int64(2)}, statusOf(r))
				require.Less(t, statusUpdates(server), 20)
				r.Stop()
			})
		})
	}
}

func statusUpdates(server *fakeapi.Server) int {
	return len(slices.DeleteFunc(server.Requests(), func(req fakeapi.Request) bool { return req.Subresource != "status" }))
}

// TestRetry_Finalizers: an admission webhook rejects the patch of finalizers as a failed test of the patch would be, while the
// parent changes each time. The patch is retried by backoff, and at most once a second for the changes. (S51, S53, S54)
func TestRetry_Finalizers(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		changes bool
		most    int64
	}{
		"Alone":       {"by backoff", false, 12},
		"With status": {"two tries a second", true, 130},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				var patches atomic.Int64
				var admits atomic.Bool
				server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
					if req.Type != sample.ParentType() || req.Verb != "patch" || admits.Load() {
						return nil
					}
					<-time.After(5 * time.Millisecond)
					n := patches.Add(1)
					if tc.changes {
						_, _ = server.Change(sample.ParentType(), req.Key, func(o map[string]any) { o["status"] = map[string]any{"heartbeat": n} })
					}
					return apierrors.NewInvalid(schema.GroupKind{Group: "example.com", Kind: "Parent"}, req.Key.Name, nil)
				}})
				calls := &callLog{}
				r := rig.Start(t, server, rig.Config(), counting{calls})
				r.Create("one", "v")
				rig.Elapse(time.Minute)
				require.LessOrEqual(t, patches.Load(), tc.most, tc.reason)
				require.Zero(t, calls.len(), "the finalizer comes first")
				require.NotEmpty(t, r.Errors("one"))
				admits.Store(true)
				rig.Elapse(2 * time.Minute)
				require.NotZero(t, calls.len())
				r.Stop()
			})
		})
	}
}

// TestRetry_OneLine: thousands of children that wait for the same have one line and one Event, at the start of an operator, too.
// (S56)
func TestRetry_OneLine(t *testing.T) {
	const children = 2000
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		fleet := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			resp := &handler.SyncResponse{}
			for i := range children {
				resp.Children = append(resp.Children, rig.Copied(fmt.Sprintf("c-%04d", i), "v"))
			}
			return resp, nil
		})
		r := rig.Start(t, server, rig.Config(), fleet)
		r.Create("one", "v")
		rig.Elapse(time.Minute)
		r.Stop()
		for _, child := range server.List(k8s.ConfigMap) {
			_, err := server.Change(k8s.ConfigMap, child.Key(), func(o map[string]any) { metaOf(o)["finalizers"] = []any{"example.com/other"} })
			require.NoError(t, err)
			require.NoError(t, server.Delete(k8s.ConfigMap, child.Key()))
		}
		r = rig.Start(t, server, rig.Config(), fleet)
		rig.Elapse(time.Minute)
		require.Equal(t, 1, told(r, "waiting for a child"))
		require.Len(t, slicesOf(recorded(r), "Waiting"), 1)
		require.Contains(t, r.Logs.String(), fmt.Sprintf("and %d more that wait for the same", children-1))
		r.Stop()
	})
}

// TestRetry_OwnStatus: a parent refers to all of its kind, itself among them. Its own status, which is new twice a second, does
// not shorten the backoff of a child that is rejected. (S64)
func TestRetry_OwnStatus(t *testing.T) {
	rig.Orders(t, func(t *testing.T, start rig.Starter) {
		server := rig.Server()
		var tries atomic.Int64
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Type == k8s.ConfigMap && req.Verb == "create" {
				tries.Add(1)
				return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, req.Key.Name, nil)
			}
			return nil
		}})
		cfg := rig.Config()
		cfg.Related = []config.Related{{Type: sample.ParentType()}}
		r := start(server, cfg, handler.Funcs{
			SyncFunc: func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				return &handler.SyncResponse{
					Children: []any{rig.Copied("bad", "v")}, Status: map[string]any{"at": time.Now().String()}, Resync: 500 * time.Millisecond,
				}, nil
			},
			RelateFunc: func(*resource.Resource) ([]handler.Ref, error) {
				return []handler.Ref{{Type: sample.ParentType(), Namespace: "ns", Selector: ""}}, nil
			},
		})
		r.Create("one", "v")
		rig.Elapse(2 * time.Minute)
		require.Greater(t, statusUpdates(server), 100)
		require.Less(t, tries.Load(), int64(20))
		r.Stop()
	})
}

// TestRetry_StatusOfAnotherLife: while statuses conflict with other clients' annotations, the parent leaves the selector or is
// paused. No status is written then, and a parent that has left is not shown any more. (S54, S239, S361)
func TestRetry_StatusOfAnotherLife(t *testing.T) {
	for name, leave := range map[string]func(o map[string]any){
		"Leaves": func(o map[string]any) { delete(metaOf(o), "labels") },
		"Paused": func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{"roperator.com/paused": "true"} },
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.ParentSelector = "mine=yes"
				var conflicts, calls, left atomic.Int64
				server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
					if req.Subresource != "status" {
						return nil
					}
					n := conflicts.Add(1)
					if n > 3 {
						return nil
					}
					_, err := server.Change(sample.ParentType(), req.Key, func(o map[string]any) {
						metaOf(o)["annotations"] = map[string]any{"heartbeat": fmt.Sprint(n)}
						if n == 3 { // the third conflict in a row
							leave(o)
							left.Store(calls.Load())
						}
					})
					require.NoError(t, err)
					return nil
				}})
				r := rig.Start(t, server, cfg, handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					calls.Add(1)
					return rig.Copier(ctx, req)
				}))
				_, err := server.Create(map[string]any{
					"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "spec": map[string]any{"value": "v"},
					"metadata": map[string]any{"namespace": "ns", "name": "one", "labels": map[string]any{"mine": "yes"}},
				})
				require.NoError(t, err)
				rig.Elapse(time.Minute)
				require.EqualValues(t, 3, conflicts.Load(), "no status is written after that")
				require.Equal(t, left.Load(), calls.Load())
				require.Nil(t, statusOf(r))
				r.Stop()
			})
		})
	}
}

// TestRetry_StatusOfPaused: the pause of a parent does not concern its deletion, so the status that Finalize returns is written
// although other clients annotate the parent during each call. (S54, S361)
func TestRetry_StatusOfPaused(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		var beats atomic.Int64
		annotate := func() {
			_, err := server.Change(sample.ParentType(), rig.Key("one"), func(o map[string]any) {
				metaOf(o)["annotations"] = map[string]any{"roperator.com/paused": "true", "heartbeat": fmt.Sprint(beats.Add(1))}
			})
			require.NoError(t, err)
		}
		r := rig.Start(t, server, rig.Config(), handler.Funcs{
			SyncFunc: rig.Copier,
			FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				annotate()
				return &handler.FinalizeResponse{Status: map[string]any{"phase": "going"}}, nil
			},
		})
		r.Create("one", "v")
		rig.Elapse(time.Minute)
		annotate()
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
		rig.Elapse(2 * time.Minute)
		status, _ := statusOf(r).(map[string]any)
		require.Equal(t, "going", status["phase"])
		r.Stop()
	})
}

// TestRetry_FinalizersOfOthers: other clients change the finalizers while the operator patches its own, several times. Each is
// another try, and none an error. (S233)
func TestRetry_FinalizersOfOthers(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		var changes atomic.Int64
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Type == sample.ParentType() && req.Verb == "patch" && changes.Add(1) <= 5 {
				_, err := server.Change(sample.ParentType(), req.Key, func(o map[string]any) {
					metaOf(o)["finalizers"] = []any{fmt.Sprint("example.com/f", changes.Load())}
				})
				require.NoError(t, err)
			}
			return nil
		}})
		r := rig.Start(t, server, rig.Config(), counting{&callLog{}})
		r.Create("one", "v")
		rig.Elapse(time.Second)
		require.EqualValues(t, 6, changes.Load())
		require.Contains(t, r.Get(sample.ParentType(), "one").Finalizers(), "example.com/f5")
		require.Empty(t, r.Errors("one"))
		r.Stop()
	})
}
