package reconcile_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A writingCase is a handler, and what other clients do meanwhile.
type writingCase struct {
	reason string
	found  int // writes, at most, before a conflict loop is reported; 0: there is none
	fights int // restores of a field that are reported, at least
	config func(cfg *config.Operator)
	sync   func(req *handler.SyncRequest) *handler.SyncResponse
	refs   []handler.Ref
	others func(r *rig.Rig)        // for about a minute
	check  func(r *rig.Rig) string // "" or what is wrong in the end
}

// Sync is handler.Handler's.
func (tc writingCase) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	<-time.After(time.Millisecond) // clocks go on
	return tc.sync(req), nil
}

// Finalize is handler.Handler's.
func (tc writingCase) Finalize(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	return &handler.FinalizeResponse{Finalized: true}, nil
}

// Relate is handler.Relater's.
func (tc writingCase) Relate(*resource.Resource) ([]handler.Ref, error) { return tc.refs, nil }

// TestConflicts_Cases: each way to write without end is reported, and no other one. (S181 to S185)
func TestConflicts_Cases(t *testing.T) {
	minute := func(*rig.Rig) { rig.Elapse(time.Minute) }
	one := func(value func(req *handler.SyncRequest) string) func(req *handler.SyncRequest) *handler.SyncResponse {
		return func(req *handler.SyncRequest) *handler.SyncResponse { return wants(rig.Copied("a", value(req))) }
	}
	status := func(of func(req *handler.SyncRequest) any) func(req *handler.SyncRequest) *handler.SyncResponse {
		return func(req *handler.SyncRequest) *handler.SyncResponse {
			return &handler.SyncResponse{Status: map[string]any{"v": of(req)}}
		}
	}
	mine := one(func(*handler.SyncRequest) string { return "mine" })
	child := func(req *handler.SyncRequest) string {
		if c, ok := req.Children.Find(rig.Copied("a", "")); ok {
			v, _ := c.Field("data", "value")
			return fmt.Sprint(v)
		}
		return ""
	}
	fleet := func(req *handler.SyncRequest, n int, value string) *handler.SyncResponse {
		resp := &handler.SyncResponse{Status: map[string]any{"n": valued(req.Children, value)}}
		for i := range n {
			resp.Children = append(resp.Children, rig.Copied(fmt.Sprintf("c-%03d", i), value))
		}
		return resp
	}
	for name, tc := range map[string]writingCase{
		"Random value": {
			reason: "the proof finds it", found: 6, others: minute, sync: one(func(*handler.SyncRequest) string { return fmt.Sprint(rand.Int()) }),
		},
		"Time in nanoseconds": {
			reason: "the proof finds it", found: 6, others: minute, sync: one(func(*handler.SyncRequest) string { return time.Now().String() }),
		},
		"Time in the status": {
			reason: "the proof finds it", found: 6, others: minute, sync: status(func(*handler.SyncRequest) any { return time.Now().String() }),
		},
		"Time in the status, KeepChildren": {
			reason: "the proof finds it", found: 6, others: minute, sync: func(*handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Status: map[string]any{"v": time.Now().String()}, KeepChildren: true}
			},
		},
		"Time in seconds": {
			reason: "it comes to an end within the second", others: minute, sync: one(func(*handler.SyncRequest) string { return fmt.Sprint(time.Now().Unix()) }),
		},
		"Counter in the status": {
			reason: "a pure function of the snapshot, which never ends: the rate finds it", found: 35, others: minute,
			sync: status(func(req *handler.SyncRequest) any { return amount(req.Parent, "status", "v") + 1 }),
		},
		"Counter in a child": {
			reason: "the same", found: 37, others: minute,
			sync: one(func(req *handler.SyncRequest) string {
				n := 0
				_, _ = fmt.Sscan(child(req), &n)
				return fmt.Sprint(n + 1)
			}),
		},
		"Flip-flop of a child": {
			reason: "one of the last states", found: 9, others: minute,
			sync: one(func(req *handler.SyncRequest) string {
				return map[bool]string{true: "B", false: "A"}[child(req) == "A"]
			}),
		},
		"Flip-flop of the status": {
			reason: "one of the last states", found: 9, others: minute,
			sync: status(func(req *handler.SyncRequest) any {
				v, _ := req.Parent.Field("status", "v")
				return map[bool]string{true: "B", false: "A"}[v == "A"]
			}),
		},
		"Fight, 20 ms": {
			reason: "five restores", found: 7, sync: mine,
			others: func(r *rig.Rig) { every(20*time.Millisecond, 3000, func(int) { setValue(r, "a", "theirs") }) },
		},
		"Fight, 10 s": {
			reason: "five restores within a minute", found: 7, sync: mine,
			others: func(r *rig.Rig) { every(10*time.Second, 12, func(int) { setValue(r, "a", "theirs") }) },
		},
		"Fight, 15 s": {
			reason: "five restores within a minute", found: 7, sync: mine,
			others: func(r *rig.Rig) { every(15*time.Second, 40, func(int) { setValue(r, "a", "theirs") }) },
		},
		"Fight, 20 s": {
			reason: "too rare for a loop: reported with the restores 5, 10, 20, and served at once", fights: 3, sync: mine,
			others: func(r *rig.Rig) { every(20*time.Second, 30, func(int) { setValue(r, "a", "theirs") }) },
			check: func(r *rig.Rig) string {
				setValue(r, "a", "theirs")
				rig.Elapse(100 * time.Millisecond)
				v, _ := r.Get(k8s.ConfigMap, "a").Field("data", "value")
				return strings.TrimPrefix(fmt.Sprint(v), "mine")
			},
		},
		"Fight, 60 s": {
			reason: "reported with the fifth and the tenth restore", fights: 2, sync: mine,
			others: func(r *rig.Rig) { every(time.Minute, 12, func(int) { setValue(r, "a", "theirs") }) },
		},
		"Names": {
			reason: "the rate finds it", found: 38, others: minute, sync: func(*handler.SyncRequest) *handler.SyncResponse {
				return wants(rig.Copied(fmt.Sprint("a-", rand.Int()), "v"))
			},
		},
		"Deleted, 50 ms": {
			reason: "the last state again", found: 7, sync: mine,
			others: func(r *rig.Rig) {
				every(50*time.Millisecond, 1200, func(int) { _ = r.Server.Delete(k8s.ConfigMap, rig.Key("a")) })
			},
		},
		"Status overwritten, 50 ms": {
			reason: "the last state again", found: 7, sync: status(func(*handler.SyncRequest) any { return "mine" }),
			others: func(r *rig.Rig) {
				every(50*time.Millisecond, 1200, func(int) {
					_, _ = r.Server.Change(sample.ParentType(), rig.Key("one"), func(o map[string]any) { o["status"] = map[string]any{"v": "theirs"} })
				})
			},
		},
		"Random value, behind a controller": {
			reason: "a controller that writes the child's status each time hides nothing", found: 8,
			sync:   one(func(*handler.SyncRequest) string { return fmt.Sprint(rand.Int()) }),
			others: func(r *rig.Rig) { every(20*time.Millisecond, 3000, func(i int) { tellReady(r, "a", fmt.Sprint(i)) }) },
		},
		"Rollout": {
			reason: "each step gives a child a new state, and the status tells of it", config: func(cfg *config.Operator) { cfg.Children[0].Roll = &config.Roll{} },
			sync: func(req *handler.SyncRequest) *handler.SyncResponse { return fleet(req, 100, specValue(req)) },
			others: func(r *rig.Rig) {
				rig.Elapse(5 * time.Second)
				r.SetSpec("one", "v2")
				rig.Elapse(55 * time.Second)
			},
		},
		"Chain": {
			reason: "each child has what the API server made of the one before", others: minute,
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				resp := &handler.SyncResponse{Status: map[string]any{"n": req.Children.Len()}}
				before := "x"
				for i := range 8 {
					c := rig.Copied(fmt.Sprintf("c-%d", i), before)
					resp.Children = append(resp.Children, c)
					live, ok := req.Children.Find(c)
					if !ok {
						break
					}
					before = string(live.UID())
				}
				return resp
			},
		},
		"Spec toggles": {
			reason: "each edit is served",
			sync:   one(specValue),
			others: func(r *rig.Rig) { every(time.Second, 60, func(i int) { r.SetSpec("one", fmt.Sprint("v", i%2)) }) },
		},
		"Related object toggles": {
			reason: "each change is served", config: relatedMaps, refs: []handler.Ref{{Type: k8s.ConfigMap, Namespace: "ns", Name: "src"}},
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				v := ""
				for res := range req.Related.All() {
					f, _ := res.Field("data", "value")
					v = fmt.Sprint(f)
				}
				return &handler.SyncResponse{Children: []any{rig.Copied("a", v)}, Status: map[string]any{"v": v}}
			},
			others: func(r *rig.Rig) {
				createSource(r, "src")
				every(time.Second, 60, func(i int) { setValue(r, "src", fmt.Sprint("v", i%2)) })
			},
		},
		"Related objects grow": {
			reason: "300 in ten seconds, and a child for each", config: relatedMaps, refs: []handler.Ref{{Type: k8s.ConfigMap, Namespace: "ns", Selector: "src=yes"}},
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				resp := &handler.SyncResponse{}
				for res := range req.Related.All() {
					resp.Children = append(resp.Children, rig.Copied("of-"+res.Name(), "v"))
				}
				resp.Status = map[string]any{"n": len(resp.Children)}
				return resp
			},
			others: func(r *rig.Rig) {
				every(33*time.Millisecond, 300, func(i int) { createSource(r, fmt.Sprint("src-", i)) })
				rig.Elapse(20 * time.Second)
			},
			check: func(r *rig.Rig) string {
				if n := len(r.Server.List(k8s.ConfigMap)); n != 600 {
					return fmt.Sprint(n, " objects")
				}
				return ""
			},
		},
		"Status follows a child": {
			reason: "which changes ten times a second", sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Children: []any{rig.Copied("a", "v")}, Status: map[string]any{"ready": toldReady(req, "a")}}
			},
			others: func(r *rig.Rig) { every(100*time.Millisecond, 600, func(i int) { tellReady(r, "a", fmt.Sprint(i)) }) },
			check: func(r *rig.Rig) string {
				v, _ := r.Get(sample.ParentType(), "one").Field("status", "ready")
				return strings.TrimPrefix(fmt.Sprint(v), "599")
			},
		},
		"A child follows another": {
			reason: "which changes twice a second", sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				return wants(rig.Copied("a", "v"), rig.Copied("b", toldReady(req, "a")))
			},
			others: func(r *rig.Rig) { every(500*time.Millisecond, 120, func(i int) { tellReady(r, "a", fmt.Sprint(i)) }) },
			check: func(r *rig.Rig) string {
				v, _ := r.Get(k8s.ConfigMap, "b").Field("data", "value")
				return strings.TrimPrefix(fmt.Sprint(v), "119")
			},
		},
		"A child flaps": {
			reason: "every ten seconds, and another one follows", sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Children: []any{rig.Copied("a", "v"), rig.Copied("b", toldReady(req, "a"))}, Status: map[string]any{"r": toldReady(req, "a")}}
			},
			others: func(r *rig.Rig) { every(10*time.Second, 18, func(i int) { tellReady(r, "a", fmt.Sprint(i%2)) }) },
		},
		"Deleted by hand": {
			reason: "100 children, twice", sync: func(req *handler.SyncRequest) *handler.SyncResponse { return fleet(req, 100, "v") },
			others: func(r *rig.Rig) {
				rig.Elapse(2 * time.Second)
				every(25*time.Second, 2, func(int) {
					for i := range 100 {
						_ = r.Server.Delete(k8s.ConfigMap, rig.Key(fmt.Sprintf("c-%03d", i)))
					}
				})
			},
			check: func(r *rig.Rig) string {
				if n := len(r.Server.List(k8s.ConfigMap)); n != 100 {
					return fmt.Sprint(n, " children")
				}
				return ""
			},
		},
		"Resync with a clock": {
			reason: "the handler asks for it", others: minute, sync: func(*handler.SyncRequest) *handler.SyncResponse {
				now := fmt.Sprint(time.Now().Unix() / 2)
				return &handler.SyncResponse{Status: map[string]any{"at": now}, Children: []any{rig.Copied("a", now)}, Resync: 2 * time.Second}
			},
		},
		"Random names that end": {
			reason: "ten children, one each time", others: minute, sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				if req.Children.Len() >= 10 {
					return wants(keeps(req)...)
				}
				return wants(append(keeps(req), rig.Copied(fmt.Sprint("a-", rand.Int()), "v"))...)
			},
		},
	} {
		t.Run(name, func(t *testing.T) { rig.Orders(t, func(t *testing.T, start rig.Starter) { tc.run(t, start) }) })
	}
}

func (tc writingCase) run(t *testing.T, start rig.Starter) {
	t.Helper()
	cfg := rig.Config()
	if tc.config != nil {
		tc.config(&cfg)
	}
	r := start(rig.Server(), cfg, tc)
	r.Create("one", "v1")
	before := make(chan int, 1) // writes before the loop
	go func() {
		defer close(before)
		for ctx := r.T.Context(); ctx.Err() == nil; {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return
			}
			if len(r.Manager.Engine().Loops()) > 0 {
				before <- len(r.Server.Writes())
				return
			}
		}
	}()
	rig.Elapse(100 * time.Millisecond)
	tc.others(r)
	if tc.found == 0 {
		require.Empty(t, r.Manager.Engine().Loops(), tc.reason)
	} else {
		require.NotEmpty(t, r.Manager.Engine().Loops(), tc.reason)
		require.LessOrEqual(t, <-before, tc.found, tc.reason)
	}
	require.GreaterOrEqual(t, told(r, "another client keeps changing a field"), tc.fights, tc.reason)
	if tc.check != nil {
		require.Empty(t, tc.check(r), tc.reason)
	}
	r.Stop()
}

// every does something so often, and lets so much time pass after each time.
func every(d time.Duration, times int, do func(i int)) {
	for i := range times {
		do(i)
		rig.Elapse(d)
	}
}

func setValue(r *rig.Rig, name, value string) {
	_, _ = r.Server.Change(k8s.ConfigMap, rig.Key(name), func(o map[string]any) { o["data"] = map[string]any{"value": value} })
}

// tellReady writes what stands for the status of a ConfigMap.
func tellReady(r *rig.Rig, name, value string) {
	_, _ = r.Server.Change(k8s.ConfigMap, rig.Key(name), func(o map[string]any) {
		meta := metaOf(o)
		all, _ := meta["annotations"].(map[string]any)
		if all == nil {
			all = map[string]any{}
		}
		all["example.com/ready"] = value
		meta["annotations"] = all
	})
}

func toldReady(req *handler.SyncRequest, name string) string {
	if child, ok := req.Children.Find(rig.Copied(name, "")); ok {
		v, _ := child.Annotation("example.com/ready")
		return v
	}
	return ""
}

func specValue(req *handler.SyncRequest) string {
	v, _ := req.Parent.Field("spec", "value")
	return fmt.Sprint(v)
}

func relatedMaps(cfg *config.Operator) { cfg.Related = []config.Related{{Type: k8s.ConfigMap}} }

func createSource(r *rig.Rig, name string) {
	_, _ = r.Server.Create(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": "ns", "labels": map[string]any{"src": "yes"}}, "data": map[string]any{"value": "v"},
	})
}
