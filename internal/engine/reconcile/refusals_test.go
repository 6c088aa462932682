package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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

// refusing refuses the creates of the ConfigMap "bad" while on says so.
func refusing(server *fakeapi.Server, on *atomic.Bool) {
	server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
		if r.Verb == "create" && r.Key.Name == "bad" && on.Load() {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "bad", errors.New("no"))
		}
		return nil
	}})
}

func tries(r *rig.Rig, of string) int {
	n := 0
	for _, q := range r.Server.Requests() {
		if q.String() == of {
			n++
		}
	}
	return n
}

// TestRefusals_Pace: a refused child is tried again in growing distance, whatever else
// calls the handler, and at once when something has changed.
func TestRefusals_Pace(t *testing.T) {
	const create = "create ConfigMap ns/bad"
	for name, resync := range map[string]time.Duration{"alone": 0, "beside a Resync": time.Second} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				var on atomic.Bool
				on.Store(true)
				server := rig.Server()
				refusing(server, &on)
				var mu sync.Mutex
				var told []int
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					mu.Lock()
					told = append(told, len(req.LastErrors))
					mu.Unlock()
					return &handler.SyncResponse{Children: []any{rig.Copied("good", "v"), rig.Copied("bad", "v")}, Resync: resync, Status: map[string]any{"failed": len(req.LastErrors)}}, nil
				}))
				r.Create("one", "v")
				rig.Elapse(time.Second)
				first := tries(r, create)
				require.GreaterOrEqual(t, first, 4, "twice in the first pass, which has written the other child, and then 100 ms later, 200 ms, …")
				require.LessOrEqual(t, first, 5)
				require.NotNil(t, r.Get(k8s.ConfigMap, "good"))
				mu.Lock()
				heard := slices.Clone(told)
				mu.Unlock()
				require.Equal(t, []int{0, 1}, heard[:2], "the next call knows")
				failed, _ := r.Get(sample.ParentType(), "one").Field("status", "failed")
				require.Equal(t, int64(1), failed)

				rig.Elapse(time.Hour)
				hour := tries(r, create)
				require.Greater(t, hour, first+6)
				require.Less(t, hour, 25, "up to ten minutes apart")

				r.SetSpec("one", "w")
				rig.Elapse(2 * time.Second)
				require.Equal(t, hour+1, tries(r, create), "the parent has changed")
				r.Change(k8s.ConfigMap, "good", func(o map[string]any) {
					meta, _ := o["metadata"].(map[string]any)
					annotations, _ := meta["annotations"].(map[string]any)
					annotations["example.com/touched"] = "yes"
				})
				rig.Elapse(2 * time.Second)
				require.Equal(t, hour+2, tries(r, create), "a sibling has")

				on.Store(false)
				rig.Elapse(15 * time.Minute)
				require.NotNil(t, r.Get(k8s.ConfigMap, "bad"), "the cause has ended elsewhere")
				failed, _ = r.Get(sample.ParentType(), "one").Field("status", "failed")
				require.Equal(t, int64(0), failed, "the handler is told that it is over")
				writes := len(r.Server.Writes())
				rig.Elapse(time.Hour)
				require.Len(t, r.Server.Writes(), writes)
				warnings := 0
				for _, e := range recorded(r) {
					if strings.Contains(e, "Warning") {
						warnings++
					}
				}
				require.Equal(t, 1, warnings, "told once: %q", recorded(r))
				r.Stop()
			})
		})
	}
}

// TestRefusals_ConflictThatIsNone: a conflict without a newer state is a refusal.
func TestRefusals_ConflictThatIsNone(t *testing.T) {
	for verb, code := range map[string]error{
		"update": apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "one", errors.New("no")),
		"delete": apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "one"),
	} {
		t.Run(verb, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					if verb == "delete" && req.Parent.Generation() > 1 {
						return &handler.SyncResponse{}, nil
					}
					return rig.Copier(ctx, req)
				}))
				r.Create("one", "v")
				rig.Elapse(time.Second)
				server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
					if q.Verb == verb && q.Type == k8s.ConfigMap {
						return code
					}
					return nil
				}})
				r.SetSpec("one", "w")
				rig.Elapse(10 * time.Second)
				require.NotEmpty(t, r.Errors("one"), "there is none")
				rig.Elapse(time.Hour)
				require.Less(t, tries(r, verb+" ConfigMap ns/one"), 25)
				require.Len(t, slicesOf(recorded(r), "Warning"), 1, "%q", recorded(r))
				server.SetHooks(fakeapi.Hooks{})
				rig.Elapse(15 * time.Minute)
				live := r.Get(k8s.ConfigMap, "one")
				if verb == "delete" {
					require.Nil(t, live)
				} else {
					value, _ := live.Field("data", "value")
					require.Equal(t, "w", value)
				}
				r.Stop()
			})
		})
	}
}

func slicesOf(texts []string, part string) []string {
	var out []string
	for _, text := range texts {
		if strings.Contains(text, part) {
			out = append(out, text)
		}
	}
	return out
}

// TestRefusals_OfTheParent: an admission webhook may answer a write of the parent itself
// with a conflict or a 404, too. That is told, and tried less and less often.
func TestRefusals_OfTheParent(t *testing.T) {
	parents := schema.GroupResource{Group: "example.com", Resource: "parents"}
	for name, tc := range map[string]struct {
		reason string
		verb   string
		answer error
		delete bool // the parent is deleted first
	}{
		"status/409":           {"no newer parent will arrive", "update", apierrors.NewConflict(parents, "one", errors.New("no")), false},
		"status/404":           {"the parent is there", "update", apierrors.NewNotFound(parents, "one"), false},
		"finalizer/404":        {"the parent is there", "patch", apierrors.NewNotFound(parents, "one"), false},
		"finalizer/let go/404": {"the parent is there, and would stay for ever", "patch", apierrors.NewNotFound(parents, "one"), true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				asked := 0
				refuse := func() {
					server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
						if q.Verb == tc.verb && q.Type == sample.ParentType() {
							asked++
							return tc.answer
						}
						return nil
					}})
				}
				if !tc.delete {
					refuse()
				}
				r := rig.Start(t, server, rig.Config(), handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
					return &handler.FinalizeResponse{Finalized: true}, nil
				}})
				r.Create("one", "v")
				rig.Elapse(time.Minute)
				if tc.delete {
					refuse()
					require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
				}
				rig.Elapse(time.Hour)
				require.Len(t, slicesOf(recorded(r), "Warning"), 1, "%s: %q", tc.reason, recorded(r))
				require.Greater(t, asked, 5)
				require.Less(t, asked, 30)
				server.SetHooks(fakeapi.Hooks{})
				rig.Elapse(15 * time.Minute)
				live := r.Get(sample.ParentType(), "one")
				if tc.delete {
					require.Nil(t, live)
				} else {
					value, _ := live.Field("status", "value")
					require.Equal(t, "v", value)
				}
				r.Stop()
			})
		})
	}
}

// TestRefusals_LogOfOtherWrites: a refusal that lasts is logged once, and what the passes write meanwhile each time.
func TestRefusals_LogOfOtherWrites(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		server.SetHooks(fakeapi.Hooks{Admit: func(_ fakeapi.Request, object map[string]any) error {
			if meta, _ := object["metadata"].(map[string]any); meta["name"] == "bad" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "bad", errors.New("no"))
			}
			return nil
		}})
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{rig.Copied("good", "v"), rig.Copied("bad", "v")}}, nil
		}))
		r.Create("one", "v")
		rig.Elapse(time.Hour)
		count := func(text string) (n int) { // at the level at which operators run
			for line := range strings.Lines(r.Logs.String()) {
				if strings.Contains(line, text) && !strings.Contains(line, "level=DEBUG") {
					n++
				}
			}
			return n
		}
		failed := count("sync failed")
		rig.Elapse(time.Hour)
		require.Equal(t, failed, count("sync failed"), "once")
		require.Equal(t, 1, count("create ConfigMap ns/good"))
		for n := range 3 {
			require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("good")))
			rig.Elapse(time.Hour)
			require.Equal(t, n+2, count("create ConfigMap ns/good"), "each time")
		}
		r.Stop()
	})
}
