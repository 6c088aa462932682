package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
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

// A mutual is the handler of parents that refer to one another: each to what refs says.
type mutual struct {
	calls atomic.Int64
	refs  func(parent *resource.Resource) []handler.Ref
	sync  func(req *handler.SyncRequest) *handler.SyncResponse
	fails error // with every response

	finalize func(req *handler.SyncRequest) *handler.FinalizeResponse // nil: there is nothing to finalize
}

func (h *mutual) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	if h.calls.Add(1) > 20_000 { // else the bubble's time would stand still
		return &handler.SyncResponse{KeepChildren: true}, nil
	}
	return h.sync(req), h.fails
}

func (h *mutual) Finalize(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	if h.finalize == nil || h.calls.Add(1) > 20_000 {
		return &handler.FinalizeResponse{Finalized: true}, nil
	}
	return h.finalize(req), nil
}

func (h *mutual) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	if h.refs == nil {
		return nil, nil
	}
	return h.refs(parent), nil
}

// startMutual starts an operator with the handler, which may refer to parents and ConfigMaps, and creates parents.
func startMutual(t *testing.T, h *mutual, parents ...string) *rig.Rig {
	cfg := rig.Config()
	cfg.Related = []config.Related{{Type: sample.ParentType()}, {Type: k8s.ConfigMap}}
	r := rig.Start(t, rig.Server(), cfg, h)
	for _, name := range parents {
		r.Create(name, "0")
	}
	return r
}

// all are references to the named objects.
func all(of resource.Type, names ...string) (refs []handler.Ref) {
	for _, name := range names {
		refs = append(refs, handler.Ref{Type: of, Namespace: "ns", Name: name})
	}
	return refs
}

// after returns who comes after a name in a ring.
func after(name string, ring []string) string {
	return ring[(slices.Index(ring, name)+1)%len(ring)]
}

// TestConflicts_Mutual: what follows from an operator's own writes of other parents, and of
// their children, excuses no write once it goes round in a circle.
func TestConflicts_Mutual(t *testing.T) {
	two, ring := []string{"a", "b"}, []string{"a", "b", "c", "d", "e"}
	counts := func(req *handler.SyncRequest) *handler.SyncResponse {
		return &handler.SyncResponse{Status: map[string]any{"n": most(req, "status", "n") + 1}}
	}
	for name, tc := range map[string]struct {
		reason  string
		parents []string
		refs    func(parent *resource.Resource) []handler.Ref
		sync    func(req *handler.SyncRequest) *handler.SyncResponse
		fails   error
		path    string
	}{
		"Two": {
			reason: "each adds one to the other's status", parents: two, path: "status.n", sync: counts,
			refs: func(p *resource.Resource) []handler.Ref { return all(sample.ParentType(), after(p.Name(), two)) },
		},
		"Failing": {
			reason: "each adds one to the other's status, and fails", parents: two, path: "status.n", sync: counts, fails: errors.New("it fails"),
			refs: func(p *resource.Resource) []handler.Ref { return all(sample.ParentType(), after(p.Name(), two)) },
		},
		"A ring": {
			reason: "each adds one to its neighbour's status", parents: ring, path: "status.n", sync: counts,
			refs: func(p *resource.Resource) []handler.Ref { return all(sample.ParentType(), after(p.Name(), ring)) },
		},
		"Everybody": {
			reason: "each adds one to everybody's status", parents: ring, path: "status.n", sync: counts,
			refs: func(*resource.Resource) []handler.Ref {
				return []handler.Ref{{Type: sample.ParentType(), Namespace: "ns"}}
			},
		},
		"Children": {
			reason: "each adds one to what the other's child says", parents: two, path: "data.value",
			refs: func(p *resource.Resource) []handler.Ref { return all(k8s.ConfigMap, after(p.Name(), two)) },
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				var n int
				for res := range req.Related.All() {
					text, _ := res.Field("data", "value")
					_, err := fmt.Sscan(fmt.Sprint(text), &n)
					if err != nil {
						n = 0
					}
				}
				return wants(rig.Copied(req.Parent.Name(), fmt.Sprint(n+1)))
			},
		},
		"Mixed": {
			reason: "one adds to the other's child, and the other copies its status", parents: two, path: "",
			refs: func(p *resource.Resource) []handler.Ref {
				if p.Name() == "a" {
					return all(k8s.ConfigMap, "b")
				}
				return all(sample.ParentType(), "a")
			},
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				if req.Parent.Name() == "b" {
					return wants(rig.Copied("b", fmt.Sprint(most(req, "status", "n"))))
				}
				var n int64
				for res := range req.Related.All() {
					text, _ := res.Field("data", "value")
					_, _ = fmt.Sscan(fmt.Sprint(text), &n)
				}
				return &handler.SyncResponse{Status: map[string]any{"n": n + 1}}
			},
		},
		"Comes and goes": {
			reason: "one wants a child while the other has none, and the other while it has one", parents: two, path: "metadata.name",
			refs: func(p *resource.Resource) []handler.Ref { return all(k8s.ConfigMap, after(p.Name(), two)) },
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				if (req.Related.Len() > 0) == (req.Parent.Name() == "a") {
					return wants()
				}
				return wants(rig.Copied(req.Parent.Name(), "v"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				h := &mutual{refs: tc.refs, sync: tc.sync, fails: tc.fails}
				r := startMutual(t, h, tc.parents...)
				rig.Elapse(time.Minute)
				if tc.fails != nil {
					require.LessOrEqual(t, h.calls.Load(), int64(65*len(tc.parents)), "%s: once a second", tc.reason)
					r.Stop()
					return
				}
				require.Less(t, h.calls.Load(), int64(2600*len(tc.parents)), "%s: found by the rate of the statuses, or sooner by that of children", tc.reason)
				require.NotEmpty(t, r.Manager.Engine().Loops(), tc.reason)
				require.Contains(t, r.Manager.Engine().Loops()[0].Path, tc.path, tc.reason)
				rig.Elapse(time.Minute) // one may be found later than the others
				before := len(r.Server.Writes())
				rig.Elapse(time.Minute)
				r.Stop()
				require.Less(t, len(r.Server.Writes())-before, 40*len(tc.parents), tc.reason)
			})
		})
	}
}

// TestConflicts_MutualProgress: what somebody else sets off is no conflict loop, however many parents
// hear of it by one another.
func TestConflicts_MutualProgress(t *testing.T) {
	ring := []string{"a", "b", "c", "d", "e"}
	for name, tc := range map[string]struct {
		reason string
		refs   func(parent *resource.Resource) []handler.Ref
		sync   func(req *handler.SyncRequest) *handler.SyncResponse
		others func(r *rig.Rig) // what somebody else does
		check  func(t *testing.T, r *rig.Rig)
	}{
		"A chain": {
			reason: "each copies its neighbour's status, and the last is edited all the time",
			refs:   func(p *resource.Resource) []handler.Ref { return all(sample.ParentType(), after(p.Name(), ring)) },
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				said, _ := req.Parent.Field("spec", "value")
				if req.Parent.Name() != "e" {
					for res := range req.Related.All() {
						said, _ = res.Field("status", "said")
					}
				}
				return &handler.SyncResponse{Status: map[string]any{"said": said}}
			},
			others: func(r *rig.Rig) {
				for i := range 200 {
					r.SetSpec("e", fmt.Sprint(i))
					rig.Elapse(50 * time.Millisecond)
				}
			},
			check: func(t *testing.T, r *rig.Rig) {
				said, _ := r.Get(sample.ParentType(), "a").Field("status", "said")
				require.Equal(t, "199", said)
			},
		},
		"Two ways": {
			reason: "two copy each other's spec, and both are edited all the time",
			refs: func(*resource.Resource) []handler.Ref {
				return []handler.Ref{{Type: sample.ParentType(), Namespace: "ns"}}
			},
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				status := map[string]any{}
				for res := range req.Related.All() {
					status[res.Name()], _ = res.Field("spec", "value")
				}
				return &handler.SyncResponse{Status: status}
			},
			others: func(r *rig.Rig) {
				for i := range 200 {
					r.SetSpec(ring[i%len(ring)], fmt.Sprint(i))
					rig.Elapse(50 * time.Millisecond)
				}
			},
			check: func(t *testing.T, r *rig.Rig) {
				said, _ := r.Get(sample.ParentType(), "b").Field("status", "e")
				require.Equal(t, "199", said)
			},
		},
		"Many children of another": {
			reason: "one counts the children of another, which come one by one",
			refs: func(p *resource.Resource) []handler.Ref {
				if p.Name() == "b" {
					return []handler.Ref{{Type: k8s.ConfigMap, Namespace: "ns"}}
				}
				return nil
			},
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				if req.Parent.Name() != "a" {
					return &handler.SyncResponse{Status: map[string]any{"n": req.Related.Len()}}
				}
				children := []any{}
				for i := range 300 {
					children = append(children, rig.Copied(fmt.Sprint("c", i), "v"))
				}
				return wants(children...)
			},
			others: func(*rig.Rig) { rig.Elapse(10 * time.Second) },
			check: func(t *testing.T, r *rig.Rig) {
				require.Equal(t, int64(300), amount(r.Get(sample.ParentType(), "b"), "status", "n"))
			},
		},
		"A dialogue": {
			reason: "two take steps in turn, and come to an end",
			refs: func(p *resource.Resource) []handler.Ref {
				if i := slices.Index(ring[:2], p.Name()); i >= 0 {
					return all(sample.ParentType(), ring[1-i])
				}
				return nil
			},
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Status: map[string]any{"n": min(most(req, "status", "n")+1, 20)}}
			},
			others: func(*rig.Rig) { rig.Elapse(time.Second) },
			check: func(t *testing.T, r *rig.Rig) {
				require.Equal(t, int64(20), amount(r.Get(sample.ParentType(), "a"), "status", "n"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := startMutual(t, &mutual{refs: tc.refs, sync: tc.sync}, ring...)
				tc.others(r)
				tc.check(t, r)
				require.Empty(t, r.Manager.Engine().Loops(), tc.reason)
				rig.Elapse(10 * time.Second)
				calls := r.Passes()
				rig.Elapse(time.Minute)
				require.Equal(t, calls, r.Passes(), "it falls silent")
				r.Stop()
			})
		})
	}
}
