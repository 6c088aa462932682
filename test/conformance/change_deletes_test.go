package conformance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// A latch lets everybody pass but while it is shut.
type latch struct {
	waiting atomic.Int32 // who waits before it

	mu   sync.Mutex
	open chan struct{} // closed when the latch opens; nil while it isn't shut
}

// shut shuts an open latch. The latch opens again at the latest when the test ends,
// before the operator is stopped that was started earlier.
func (l *latch) shut(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = make(chan struct{})
	t.Cleanup(l.release)
}

// release opens the latch. It does nothing if the latch is open.
func (l *latch) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		close(l.open)
		l.open = nil
	}
}

// pass waits until the latch is open, or the context has ended.
func (l *latch) pass(ctx context.Context) {
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	if open == nil {
		return
	}
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	select {
	case <-open:
	case <-ctx.Done():
	}
}

// holds waits until somebody waits before the latch.
func (l *latch) holds(t *testing.T, what string) {
	t.Helper()
	eventually(t, what, func() bool { return l.waiting.Load() > 0 })
}

// A slowServer is the API server, whose answers take their time.
type slowServer struct {
	deletes latch // before the answers to the operator's deletes
	parents latch // before the events of the parents
}

// config returns a configuration for the slow server.
func (s *slowServer) config() *rest.Config {
	cfg := cluster.RESTConfig()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(req)
			if err != nil {
				return nil, err
			}
			ctx, query := req.Context(), req.URL.Query()
			switch {
			case req.Method == http.MethodDelete && !query.Has("dryRun"):
				s.deletes.pass(ctx)
			case query.Get("watch") != "" && strings.HasSuffix(req.URL.Path, "/parents"):
				answer.Body = slowBody{answer.Body, func() { s.parents.pass(ctx) }}
			}
			return answer, nil
		})
	})
	return cfg
}

// A slowBody calls pass before it hands out what it has read.
type slowBody struct {
	io.ReadCloser
	pass func()
}

func (b slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.pass()
	return n, err
}

// knows returns the names of a parent's children in the operator's store.
func knows(kit *testkit.Kit, it any) (names []string) {
	for child := range kit.Snapshot(it).Children.All() {
		names = append(names, child.Name())
	}
	return names
}

// parentReads returns how often the operator has read its parents since then: gets and
// lists, as the audit log has them.
func parentReads(t *testing.T, from mark, operator string) (reads []string) {
	for _, r := range needsAudit(t).since(t, from, operator) {
		if r.Resource == "parents" && !r.persists() {
			reads = append(reads, r.String())
		}
	}
	return reads
}

func TestC162_DeleteAnsweredLate(t *testing.T) {
	scenario(t, "C162", "an own delete is no loss, though the watch tells of it before the answer does: the child is created once, and nobody asks for the parent")
	needsAudit(t)
	slow := &slowServer{}
	s := newStageWith(t, operator("c162-late", childrenBy(config.Recreate, k8s.ConfigMap)...), testkit.KitOptions{Runner: runner.Options{RESTConfig: slow.config()}})
	s.want(configMap("a", "k", "v1"))
	from := audit.mark(t)

	slow.deletes.shut(t)
	s.ask(configMap("a", "k", "v2"))
	slow.deletes.holds(t, "the answer to the delete is held back")
	eventually(t, "the watch has told of the deletion", func() bool { return len(knows(s.Kit, s.it())) == 0 })
	require.Nil(t, s.Get(configMap("a", "", "")))
	slow.deletes.release()
	settle(t, s.Kit)
	require.Equal(t, "v2", s.field(configMap("a", "", ""), "data", "k"))
	ns := s.Namespace
	require.Equal(t, []string{"delete configmaps/" + ns + "/a: 200", "create configmaps/" + ns + "/a: 201"}, s.writtenSince(from))
	require.Empty(t, parentReads(t, from, s.config.Name), "nothing was lost")
	require.Empty(t, s.errors())
	s.silent()
	s.restart()
}

// The operator deletes a child of the parent one. The watch tells of that before the
// answer does. In between, somebody deletes the children of many other parents, so
// that a pass over one of them lists all parents and so explains every loss so far.
// Then the parent one is deleted, and loses its other child, of which the operator
// hears first. The late answer must not explain that loss.
func TestC162b_ListExplainsBeforeTheAnswer(t *testing.T) {
	scenario(t, "C162b", "an own delete that is answered late explains no loss of another child: what goes along with its parent isn't created again")
	needsAudit(t)
	const others = 40 // enough for a list of all parents to be the cheaper
	slow, handlers := &slowServer{}, &latch{}
	var both atomic.Bool
	both.Store(true)
	h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if name := req.Parent.Name(); name != "one" {
			handlers.pass(ctx)
			return &handler.SyncResponse{Children: []any{configMap(name, "k", "v")}}, nil
		}
		children := []any{configMap("b", "k", "v")}
		if both.Load() {
			children = append(children, configMap("a", "k", "v"))
		}
		return &handler.SyncResponse{Children: children}, nil
	})
	cfg := operator("c162-list", childrenBy(config.Replace, k8s.ConfigMap)...)
	cfg.MaxConcurrentSyncs = 2 * others
	kit := testkit.NewWithOptions(t, cluster, cfg, h, testkit.KitOptions{Runner: runner.Options{RESTConfig: slow.config()}})
	one := parent("one", nil)
	one["metadata"].(map[string]any)["finalizers"] = []any{"example.com/theirs"}
	kit.Create(one)
	for i := range others {
		kit.Create(parent(fmt.Sprint("p", i), nil))
	}
	settle(t, kit)
	from := audit.mark(t)
	typed, untyped := clients(t, "somebody")
	maps, parents := typed.CoreV1().ConfigMaps(kit.Namespace), untyped.Resource(plural(parentType)).Namespace(kit.Namespace)

	slow.deletes.shut(t)
	both.Store(false)
	kit.Update(parent("one", map[string]any{"revision": 2}))
	slow.deletes.holds(t, "the answer to the delete is held back")
	eventually(t, "the watch has told of the deletion", func() bool { return len(knows(kit, one)) == 1 })

	handlers.shut(t)
	for i := range others {
		require.NoError(t, maps.Delete(t.Context(), fmt.Sprint("p", i), metav1.DeleteOptions{}))
	}
	eventually(t, "all others have lost their children", func() bool { return handlers.waiting.Load() == others })
	handlers.release()
	for i := range others {
		kit.EventuallyExists(configMap(fmt.Sprint("p", i), "", ""), patience)
	}
	require.Contains(t, parentReads(t, from, cfg.Name), "list parents/"+kit.Namespace+": 200", "a pass has explained the losses")

	slow.parents.shut(t)
	require.NoError(t, parents.Delete(t.Context(), "one", metav1.DeleteOptions{}))
	require.NoError(t, maps.Delete(t.Context(), "b", metav1.DeleteOptions{}))
	eventually(t, "the watch has told of the loss", func() bool { return len(knows(kit, one)) == 0 })
	from = audit.mark(t)
	slow.deletes.release()
	eventually(t, "a pass wants to create the child", func() bool {
		return len(audit.since(t, from, cfg.Name)) > 0
	})
	slow.parents.release()
	settle(t, kit)
	ns := kit.Namespace
	require.Contains(t, parentReads(t, from, cfg.Name), "get parents/"+ns+"/one: 200", "the loss is asked about")
	require.Nil(t, kit.Get(configMap("b", "", "")))
	require.Equal(t, []string{"create", "delete"}, verbs(kit.Writes(), "ConfigMap", "a"))
	require.Equal(t, []string{"create"}, verbs(kit.Writes(), "ConfigMap", "b"))
	for i := range others {
		require.Equal(t, []string{"create", "create"}, verbs(kit.Writes(), "ConfigMap", fmt.Sprint("p", i)))
	}
	require.Empty(t, kit.HandlerErrors(one))
	quiet(t, cfg.Name)
	_, err := parents.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	kit.EventuallyGone(one, patience)
	settle(t, kit)
}
