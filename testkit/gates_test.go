package testkit

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// gatedSite wants a Pod, a page after that, and a Secret that it holds back itself.
func gatedSite(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
	web := pod("nginx")
	return &handler.SyncResponse{Children: []any{
		web, handler.After(page("index", "hello"), web), handler.When(secret("hunter2"), false),
	}}, nil
}

// A plan says what is created now, and what only after that.
func TestSync_Gates(t *testing.T) {
	t.Parallel()
	h := handler.SyncFunc(gatedSite)
	now := site(map[string]any{"text": "hello"})
	t.Run("as wanted", func(t *testing.T) {
		Sync(t, sites(), h, now).WantCreate(pod("nginx")).WantWait(page("index", "hello"), pod("nginx")).WantWait(secret("hunter2"))
	})
	t.Run("open", func(t *testing.T) {
		ready := pod("nginx")
		ready.Status.Phase = "Succeeded"
		Sync(t, sites(), h, now, ready).WantCreate(page("index", "hello")).WantWait(secret("hunter2"))
	})
	for name, tc := range map[string]struct {
		test func(t testing.TB)
		want []string
	}{
		"now": {
			func(t testing.TB) {
				Sync(t, sites(), h, now).WantCreate(pod("nginx")).WantCreate(page("index", "hello")).WantWait(secret("hunter2"))
			},
			[]string{"want create ConfigMap default/index, not create, waiting", "  create ConfigMap default/index, waits for Pod default/"},
		},
		"for another": {
			func(t testing.TB) {
				Sync(t, sites(), h, now).WantCreate(pod("nginx")).WantWait(page("index", "hello"), secret("hunter2")).WantWait(secret("hunter2"), pod("nginx"))
			},
			[]string{"want ConfigMap default/index to wait for Secret default/", "want Secret default/key to wait for Pod default/"},
		},
		"unexpected": {
			func(t testing.TB) { Sync(t, sites(), h, now).WantCreate(pod("nginx")) },
			[]string{"create ConfigMap default/index, waits for Pod default/", "create Secret default/key, waits for a condition of the handler"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := fake(t, tc.test).failure()
			for _, want := range tc.want {
				require.Contains(t, got, want)
			}
			require.NotContains(t, got, "hunter2")
		})
	}
}

// A child may wait for another one and for the handler's condition, and a test may ask for both. A golden plan has both.
func TestSync_GatesOfBothKinds(t *testing.T) {
	t.Parallel()
	now := site(map[string]any{"text": "hello"})
	both := func(ok bool) handler.Handler {
		return handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{pod("nginx"), handler.When(handler.After(page("index", "hello"), pod("nginx")), ok)}}, nil
		})
	}
	wait := func(ok bool, obj any) string {
		return fake(t, func(tb testing.TB) {
			Sync(tb, sites(), both(ok), now).WantCreate(pod("nginx")).WantWait(obj, pod("nginx"))
		}).failure()
	}
	require.Empty(t, wait(false, page("index", "hello")))
	require.Empty(t, wait(true, page("index", "hello")))
	require.Empty(t, wait(false, handler.When(page("index", "hello"), false)))
	require.Contains(t, wait(true, handler.When(page("index", "hello"), false)), "want ConfigMap default/index to wait for Pod default/web, a condition of the handler")
	Sync(t, sites(), both(false), now).WantCreate(pod("nginx")).WantWait(handler.After(page("index", "hello"), pod("nginx")))

	path := filepath.Join(t.TempDir(), "plan.yaml")
	write := fake(t, func(tb testing.TB) { Sync(tb, sites(), both(false), now).Golden(path) })
	require.Contains(t, write.failure(), path+" doesn't exist")
	text, err := Sync(t, sites(), both(false), now).WantCreate(pod("nginx")).WantWait(page("index", "hello"), pod("nginx")).golden()
	require.NoError(t, err)
	require.Contains(t, string(text), "  verb: create\n  waits: waits for Pod default/web, a condition of the handler\n")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	require.Contains(t, fake(t, func(tb testing.TB) { Sync(tb, sites(), both(true), now).Golden(path) }).failure(), "\n+   waits: waits for Pod default/web")
}

// A recording says what each child waits for, so that a build which orders them in
// another way doesn't pass for the same.
func TestRecord_Gates(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	h := Record(&out, handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		resp, err := gatedSite(ctx, req)
		resp.Children = append(resp.Children, handler.After(page("late", "x"), handler.Ref{Type: k8s.Secret, Name: "token"}))
		return resp, err
	}))
	Sync(t, sites(), h, site(map[string]any{"text": "hello"})).WantError("Secret default/token is neither a child of this response nor what the parent refers to")
	require.Contains(t, out.String(), `"after":["Pod web"]`)
	require.Contains(t, out.String(), `"after":["Secret token"]`)
	require.Contains(t, out.String(), `"when":false`)
}
