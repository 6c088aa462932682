package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// A bouncer rejects creates of ConfigMaps.
type bouncer struct {
	mu     sync.Mutex // guards what follows
	admits func(name string) bool
	own    bool // each rejection has its own reason
	posts  []time.Time
	calls  [][]handler.ChildError // that a handler was shown
}

func (b *bouncer) install(server *fakeapi.Server) {
	server.SetHooks(fakeapi.Hooks{Admit: func(req fakeapi.Request, o map[string]any) error {
		if req.Type != k8s.ConfigMap || req.Verb != "create" || req.DryRun {
			return nil
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.posts = append(b.posts, time.Now())
		if name, _ := metaOf(o)["name"].(string); !b.admits(name) {
			why := errors.New("exceeded quota: q, requested: configmaps=1, used: configmaps=100, limited: configmaps=100")
			if b.own {
				why = fmt.Errorf("denied: it is number %d", len(b.posts))
			}
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, name, why)
		}
		return nil
	}})
}

func (b *bouncer) set(admits func(name string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admits = admits
}

// sent returns how many creates were sent up to d after begin.
func (b *bouncer) sent(begin time.Time, d time.Duration) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range b.posts {
		if at.Sub(begin) <= d {
			n++
		}
	}
	return n
}

// crowd returns a handler that wants so many ConfigMaps.
func (b *bouncer) crowd(n int) handler.Handler {
	return handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		b.mu.Lock()
		b.calls = append(b.calls, req.LastErrors)
		b.mu.Unlock()
		resp := &handler.SyncResponse{Status: map[string]any{"children": req.Children.Len()}}
		for i := range n {
			resp.Children = append(resp.Children, rig.Copied(fmt.Sprintf("c-%03d", i), "v"))
		}
		return resp, nil
	})
}

// TestSlowStart: of 500 children under a quota of 100, the operator tries one at a time, however much changes beside. It says
// so once, and goes on when the quota is raised. (S53, S55, S56, S58)
func TestSlowStart(t *testing.T) {
	rig.Orders(t, func(t *testing.T, start rig.Starter) {
		const all, quota = 500, 100
		server, b := rig.Server(), &bouncer{}
		admitted := 0
		limit := func(most int) func(string) bool {
			return func(string) bool {
				if admitted >= most {
					return false
				}
				admitted++
				return true
			}
		}
		b.admits = limit(quota)
		b.install(server)
		r := start(server, rig.Config(), b.crowd(all))
		begin := time.Now()
		r.Create("one", "v")
		for i := range 200 { // statuses of children move 20 times a second
			rig.Elapse(50 * time.Millisecond)
			tellReady(r, fmt.Sprintf("c-%03d", i%50), fmt.Sprint(i))
		}
		require.Len(t, r.Server.List(k8s.ConfigMap), quota)
		require.LessOrEqual(t, b.sent(begin, 10*time.Second), 130)
		lines := strings.Count(r.Logs.String(), "level=ERROR")
		require.Positive(t, lines)
		require.LessOrEqual(t, lines, 2, "one line for the reason, and none for each child")
		events := len(slicesOf(recorded(r), "SyncFailed"))
		require.Positive(t, events)
		require.LessOrEqual(t, events, 2)
		b.mu.Lock()
		require.Len(t, b.calls[len(b.calls)-1], all-quota, "the handler is told of each child")
		b.mu.Unlock()

		b.set(limit(300))
		rig.Elapse(20 * time.Second)
		require.Len(t, r.Server.List(k8s.ConfigMap), 300, "one probe was accepted, so the rest has followed")
		b.set(limit(all))
		rig.Elapse(time.Minute)
		require.Len(t, r.Server.List(k8s.ConfigMap), all)
		status, _ := r.Get(sample.ParentType(), "one").Field("status", "children")
		require.EqualValues(t, all, status)
		r.Stop()
	})
}

// TestSlowStart_Some: children that are rejected for themselves hold the others up for a while only, and each is tried in turn.
// (S51, S55)
func TestSlowStart_Some(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		admits func(name string) bool
		own    bool // each is rejected for its own reason
		within time.Duration
		want   int
	}{
		"Two":             {"too few for a common reason", func(name string) bool { return name > "c-001" }, false, time.Second, 48},
		"The first ten":   {"the probes get by them one by one", func(name string) bool { return name > "c-009" }, false, time.Minute, 40},
		"Each for itself": {"they have no reason in common", func(name string) bool { return strings.HasSuffix(name, "1") || strings.HasSuffix(name, "6") }, true, time.Second, 10},
		"Four of five":    {"each is tried in its turn", func(name string) bool { return strings.HasSuffix(name, "1") || strings.HasSuffix(name, "6") }, false, 2 * time.Hour, 10},
		"All but one":     {"it is found in its turn", func(name string) bool { return name == "c-037" }, false, 20 * time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, b := rig.Server(), &bouncer{admits: tc.admits, own: tc.own}
				b.install(server)
				r := rig.Start(t, server, rig.Config(), b.crowd(50))
				r.Create("one", "v")
				rig.Elapse(tc.within)
				require.Len(t, r.Server.List(k8s.ConfigMap), tc.want, tc.reason)
				b.set(func(string) bool { return true })
				rig.Elapse(11 * time.Minute)
				require.Len(t, r.Server.List(k8s.ConfigMap), 50)
				r.Stop()
			})
		})
	}
}

// TestSlowStart_Count: while a webhook admits one child after the other, one line and one Event tell of the rest, and their count
// is no news. What is known of the parent has the newest count. (S56)
func TestSlowStart_Count(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const all = 40
		server, b := rig.Server(), &bouncer{admits: func(string) bool { return false }}
		b.install(server)
		r := rig.Start(t, server, rig.Config(), b.crowd(all))
		r.Create("one", "v")
		for i := range all / 2 {
			b.set(func(string) bool { return len(server.List(k8s.ConfigMap)) < i })
			r.Change(sample.ParentType(), "one", func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{"turn": fmt.Sprint(i)} })
			rig.Elapse(3 * time.Second)
		}
		require.Greater(t, len(server.List(k8s.ConfigMap)), 10)
		require.Equal(t, 1, strings.Count(r.Logs.String(), "level=ERROR"), r.Logs.String())
		require.Len(t, slicesOf(recorded(r), "SyncFailed"), 1)
		require.Contains(t, r.Manager.Engine().Known(rig.Key("one")).LastError, fmt.Sprint(all-len(server.List(k8s.ConfigMap)), " not written"))
		r.Stop()
	})
}

// TestSlowStart_Deletes: a quota that holds the creates of a type doesn't hold its deletes, which make room for them.
func TestSlowStart_Deletes(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, b := rig.Server(), &bouncer{}
		b.admits = func(string) bool { return len(server.List(k8s.ConfigMap)) < 20 }
		b.install(server)
		cfg := rig.Config()
		cfg.Children[0].DeleteFirst = true
		r := rig.Start(t, server, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			resp := &handler.SyncResponse{}
			for i := range 20 {
				resp.Children = append(resp.Children, rig.Copied(fmt.Sprintf("%s-%03d", specValue(req), i), "v"))
			}
			return resp, nil
		}))
		r.Create("one", "a")
		rig.Elapse(time.Second)
		r.SetSpec("one", "b")
		rig.Elapse(time.Minute)
		for _, child := range r.Server.List(k8s.ConfigMap) {
			require.True(t, strings.HasPrefix(child.Name(), "b-"), child.Name())
		}
		require.Len(t, r.Server.List(k8s.ConfigMap), 20)
		r.Stop()
	})
}
