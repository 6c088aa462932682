package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// tellingStatuses are statuses that tell of the calls, each in another way.
func tellingStatuses() map[string]func(call int) any {
	begun := time.Now()
	return map[string]func(call int) any{
		"No status":   func(int) any { return nil },
		"Constant":    func(int) any { return map[string]any{"phase": "Trying"} },
		"Attempts":    func(call int) any { return map[string]any{"attempts": call} },
		"Seconds":     func(int) any { return map[string]any{"lastTried": time.Now().UTC().Format(time.RFC3339)} },
		"Nanoseconds": func(int) any { return map[string]any{"lastTried": time.Now().UTC().Format(time.RFC3339Nano)} },
		"Waited":      func(int) any { return map[string]any{"message": fmt.Sprint("trying for ", time.Since(begun))} },
	}
}

// TestOwnWrites_Status: a status that tells of the call triggers no call, whether the response to its write or its watch
// event arrives first. The handler is called when its error or its Retry says so. (S61, S64)
func TestOwnWrites_Status(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		config func(cfg *config.Operator)
		fails  error
		reject bool // the ConfigMap
		refers bool // to all parents and ConfigMaps
		retry  time.Duration
		during time.Duration
		calls  int
	}{
		"Fails":     {"100 ms, doubled each time up to ten minutes", nil, errBroken, false, false, 0, time.Hour, 18},
		"Permanent": {"it is not to be called again", nil, handler.Permanent(errBroken), false, false, 0, time.Hour, 1},
		"Rejected":  {"the child is retried with the same backoff", nil, nil, true, false, 0, time.Hour, 18},
		"Rejected, Ready condition": {
			"which has the API server's message", func(cfg *config.Operator) { cfg.ReadyCondition = true }, nil, true, false, 0, time.Hour, 18,
		},
		"Finalizing":                   {"it asks for a retry in 30 seconds", nil, nil, false, false, 30 * time.Second, 119 * time.Second, 4},
		"Fails, refers to itself":      {"its own status is no reason", nil, errBroken, false, true, 0, time.Hour, 18},
		"Permanent, refers to itself":  {"nor is it here", nil, handler.Permanent(errBroken), false, true, 0, time.Hour, 1},
		"Rejected, refers to itself":   {"nor here", nil, nil, true, true, 0, time.Hour, 18},
		"Finalizing, refers to itself": {"nor here", nil, nil, false, true, 30 * time.Second, 119 * time.Second, 4},
	} {
		t.Run(name, func(t *testing.T) {
			for status, of := range tellingStatuses() {
				t.Run(status, func(t *testing.T) {
					rig.Orders(t, func(t *testing.T, start rig.Starter) {
						server, calls := rig.Server(), &callLog{}
						if tc.reject {
							server.SetHooks(fakeapi.Hooks{Admit: func(req fakeapi.Request, o map[string]any) error {
								if req.Type == k8s.ConfigMap && !req.DryRun {
									return fmt.Errorf("denied: %v", o["data"])
								}
								return nil
							}})
						}
						cfg := rig.Config()
						if tc.config != nil {
							tc.config(&cfg)
						}
						if tc.refers {
							cfg.Related = []config.Related{{Type: sample.ParentType()}, {Type: k8s.ConfigMap}}
						}
						r := start(server, cfg, &trying{refers: tc.refers, retry: tc.retry, try: func() (*handler.SyncResponse, error) {
							call := calls.note()
							resp := &handler.SyncResponse{Status: of(call)}
							if tc.reject {
								resp.Children = []any{rig.Copied("one", call)}
							}
							return resp, tc.fails
						}})
						r.Create("one", "v")
						if tc.retry > 0 {
							rig.Elapse(time.Second)
							require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
							before := calls.len()
							rig.Elapse(tc.during)
							require.Equal(t, tc.calls, calls.len()-before, tc.reason)
						} else {
							rig.Elapse(tc.during)
							require.Equal(t, tc.calls, calls.len(), tc.reason)
						}
						require.Zero(t, told(r, "conflict loop"))
						r.Stop()
					})
				})
			}
		})
	}
}

// A trying handler gives the same response to each call. With retry, it finalizes parents, and never ends. With refers, a parent
// refers to all of its kind and to all ConfigMaps.
type trying struct {
	try    func() (*handler.SyncResponse, error)
	retry  time.Duration
	refers bool
}

func (h *trying) Relates() bool { return h.refers }

func (h *trying) Relate(*resource.Resource) ([]handler.Ref, error) {
	return []handler.Ref{{Type: sample.ParentType()}, {Type: k8s.ConfigMap}}, nil
}

func (h *trying) Sync(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
	if h.retry > 0 {
		return &handler.SyncResponse{}, nil
	}
	return h.try()
}

func (h *trying) Finalize(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	if h.retry == 0 {
		return &handler.FinalizeResponse{Finalized: true}, nil
	}
	resp, err := h.try()
	return &handler.FinalizeResponse{Status: resp.Status, Retry: h.retry}, err
}

// TestOwnWrites_NoGeneration: parents without generations, such as Namespaces, change with each status. The own one is
// no edit, so a status with another value each time is a conflict loop, and throttled. (S61)
func TestOwnWrites_NoGeneration(t *testing.T) {
	rig.Orders(t, func(t *testing.T, start rig.Starter) {
		kind := fakeapi.Custom(sample.ParentType(), "parents")
		kind.Generation = false
		server, calls := fakeapi.New(kind, fakeapi.ConfigMaps(), fakeapi.Secrets(), fakeapi.Namespaces()), &callLog{}
		r := start(server, rig.Config(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Status: map[string]any{"calls": calls.note()}, Children: []any{rig.Copied("one", "v")}}, nil
		}))
		r.Create("one", "v")
		rig.Elapse(10 * time.Minute)
		require.LessOrEqual(t, calls.len(), 20)
		require.LessOrEqual(t, told(r, "conflict loop"), 3)
		r.Stop()
	})
}

// TestOwnWrites_Life: an ordinary life has as many calls, reads and writes in either order, and each trigger is counted once.
// (S61, S63)
func TestOwnWrites_Life(t *testing.T) {
	for name, selector := range map[string]string{"Plain": "", "Selected": "mine=yes"} {
		t.Run(name, func(t *testing.T) {
			rig.Orders(t, func(t *testing.T, start rig.Starter) {
				server, calls, cfg := rig.Server(), &callLog{}, rig.Config()
				cfg.ParentSelector = selector
				r := start(server, cfg, counting{calls})
				_, err := server.Create(map[string]any{
					"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
					"metadata": map[string]any{"name": "one", "namespace": "ns", "labels": map[string]any{"mine": "yes"}}, "spec": map[string]any{"value": "v"},
				})
				require.NoError(t, err)
				rig.Elapse(time.Minute)
				require.Equal(t, 3, calls.len(), "it has written the child, then the status, then nothing")
				require.Equal(t, 1, value(r, "roperator_event_to_write_seconds", ""))
				r.SetSpec("one", "v2")
				rig.Elapse(time.Minute)
				require.Equal(t, 6, calls.len())
				require.Empty(t, gets(server))
				if selector == "" {
					require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
				} else {
					r.Change(sample.ParentType(), "one", func(o map[string]any) {
						o["metadata"].(map[string]any)["labels"] = map[string]any{"mine": "no"}
					})
				}
				rig.Elapse(time.Minute)
				require.Equal(t, 7, r.Passes())
				r.Stop()
			})
		})
	}
}

// gets returns the reads of single objects.
func gets(server *fakeapi.Server) []fakeapi.Request {
	return slices.DeleteFunc(server.Requests(), func(req fakeapi.Request) bool { return req.Verb != "get" })
}

// A counting handler is the Copier that counts its calls, and that finalizes.
type counting struct{ calls *callLog }

func (h counting) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	h.calls.note()
	return rig.Copier(ctx, req)
}

func (h counting) Finalize(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	h.calls.note()
	return &handler.FinalizeResponse{Finalized: true}, nil
}

// TestOwnWrites_EditInResponse: the patch of finalizers is not guarded by the resourceVersion, so its response may have
// another client's change. It triggers as if the watch had told of it. (S62)
func TestOwnWrites_EditInResponse(t *testing.T) {
	for name, change := range map[string]func(o map[string]any){
		"Spec":   func(o map[string]any) { o["spec"] = map[string]any{"value": "changed"} },
		"Status": func(o map[string]any) { o["status"] = map[string]any{"value": "changed"} },
	} {
		t.Run(name, func(t *testing.T) {
			rig.Orders(t, func(t *testing.T, start rig.Starter) {
				server, calls := rig.Server(), &callLog{}
				var once sync.Once
				server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
					if req.Type == sample.ParentType() && req.Verb == "patch" {
						once.Do(func() {
							_, err := server.Change(sample.ParentType(), rig.Key("one"), change)
							require.NoError(t, err)
						})
					}
					return nil
				}})
				r := start(server, rig.Config(), &trying{try: func() (*handler.SyncResponse, error) {
					calls.note()
					return &handler.SyncResponse{}, nil
				}})
				r.Create("one", "v")
				rig.Elapse(time.Hour)
				require.Equal(t, 2, calls.len())
				r.Stop()
			})
		})
	}
}

// TestFollowUp_First: after an upgrade of many parents, each status follows its children closely, in either order.
// (S65, S66)
func TestFollowUp_First(t *testing.T) {
	const parents = 500
	for _, workers := range []int{1, 10} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			rig.Orders(t, func(t *testing.T, start rig.Starter) {
				server, cfg := rig.Server(), rig.Config()
				cfg.MaxConcurrentSyncs = workers
				r := start(server, cfg, versioned("v1"))
				for i := range parents {
					r.Create(fmt.Sprintf("p%04d", i), "v")
				}
				rig.Elapse(time.Hour)
				r.Stop()
				var mu sync.Mutex // guards what follows
				writes, child, most := 0, map[string]int{}, 0
				server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
					if !req.Writes() || req.Type == fakeapi.Events().Type {
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					writes++
					if req.Type == k8s.ConfigMap {
						child[req.Key.Name] = writes
					} else if req.Subresource == "status" {
						most = max(most, writes-child[req.Key.Name])
						delete(child, req.Key.Name)
					}
					return nil
				}})
				r = start(server, cfg, versioned("v2"))
				rig.Elapse(time.Hour)
				require.Equal(t, 2*parents, writes)
				require.Empty(t, child, "each status was written")
				require.LessOrEqual(t, most, 20, "writes from a child to its status")
				r.Stop()
			})
		})
	}
}

// versioned returns a handler whose child has a version, and whose status has that of the child.
func versioned(version string) handler.Handler {
	return handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		status := map[string]any{}
		if child, ok := req.Children.OfType(k8s.ConfigMap).Get("ns", req.Parent.Name()); ok {
			status["version"], _ = child.Field("data", "value")
		}
		return &handler.SyncResponse{Status: status, Children: []any{rig.Copied(req.Parent.Name(), version)}}, nil
	})
}

// TestFollowUp_Steps: a rollout or a chain of dependencies runs as fast as its children get ready. (S65)
func TestFollowUp_Steps(t *testing.T) {
	const steps = 100
	for name, tc := range map[string]struct {
		reason string
		config func(cfg *config.Operator)
		value  func(version string, i int) any
		begins func(r *rig.Rig)
	}{
		"Rollout": {
			"one child at a time", func(cfg *config.Operator) { cfg.Children[0].Roll = &config.Roll{MaxUnavailable: "1"} },
			func(version string, i int) any { return rig.Copied(fmt.Sprintf("c%03d", i), version) },
			func(r *rig.Rig) { r.SetSpec("one", "v2") },
		},
		"Dependencies": {
			"each child needs the one before", nil,
			func(version string, i int) any {
				child := rig.Copied(fmt.Sprintf("c%03d", i), version)
				if i == 0 {
					return child
				}
				return handler.After(child, rig.Copied(fmt.Sprintf("c%03d", i-1), version))
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Orders(t, func(t *testing.T, start rig.Starter) {
				server, cfg := rig.Server(), rig.Config()
				if tc.config != nil {
					tc.config(&cfg)
				}
				r := start(server, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					resp, version := &handler.SyncResponse{}, ""
					if v, ok := req.Parent.Field("spec", "value"); ok {
						version = v.(string)
					}
					for i := range steps {
						resp.Children = append(resp.Children, tc.value(version, i))
					}
					return resp, nil
				}))
				r.Create("one", "v1")
				if tc.begins != nil {
					rig.Elapse(time.Minute)
					tc.begins(r)
				}
				rig.Elapse(time.Second)
				for i := range steps {
					child := r.Get(k8s.ConfigMap, fmt.Sprintf("c%03d", i))
					require.NotNil(t, child, "%s: child %d", tc.reason, i)
					value, _ := child.Field("data", "value")
					require.Equal(t, map[bool]string{true: "v2", false: "v1"}[tc.begins != nil], value, "%s: child %d", tc.reason, i)
				}
				require.Zero(t, told(r, "conflict loop"))
				r.Stop()
			})
		})
	}
}
