package testkit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// TestRequestIsWhatSyncAsks: a handler that is called by hand sees what Sync shows it.
func TestRequestIsWhatSyncAsks(t *testing.T) {
	cfg := sites()
	cfg.Related = []config.Related{{Type: k8s.ServiceAccount, Fields: []string{"spec.account"}}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	parent := site(map[string]any{"text": "hello", "account": "robot"})
	var asked *handler.SyncRequest
	ask := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		asked = req
		return &handler.SyncResponse{KeepChildren: true}, nil
	})
	Sync(t, cfg, ask, parent, page("index", "bye"), Related(account), pod("nginx")).WantNothing()
	made := Request(t, cfg, parent, page("index", "bye"), Related(account), pod("nginx"))
	want, err := asked.MarshalJSON()
	require.NoError(t, err)
	have, err := made.MarshalJSON()
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(have))

	child, ok := made.Children.OfType(k8s.ConfigMap).First()
	require.True(t, ok)
	require.Equal(t, "default", child.Namespace())
	require.NotEmpty(t, child.UID())
	require.Equal(t, made.Parent.UID(), child.OwnerReferences()[0].UID)
	_, ok = made.Related.OfType(k8s.ServiceAccount).Get("default", "robot")
	require.True(t, ok)
}

// TestRequestIsForHandlers: it can be given to a handler as it is, also with what a test sets.
func TestRequestIsForHandlers(t *testing.T) {
	req := Request(t, sites(), site(map[string]any{"text": "hello"}))
	req.LastErrors = []handler.ChildError{{Type: k8s.Pod, Verb: "create", Message: "no quota"}}
	resp, err := handler.SyncFunc(siteHandler).Sync(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, resp.Children, 3)

	req = Request(t, sites(), deleted(site(nil)))
	require.True(t, req.Parent.IsDeleting())
	gone, err := finalizingSite(true).Finalize(t.Context(), req)
	require.NoError(t, err)
	require.True(t, gone.Finalized)
}

func TestRequestRefuses(t *testing.T) {
	broken := sites()
	broken.Name = ""
	for name, tc := range map[string]struct {
		cfg    config.Operator
		parent any
		child  any
		want   string
	}{
		"configuration":   {broken, site(nil), page("a", "b"), "testkit: request: "},
		"parent's type":   {sites(), page("a", "b"), page("a", "b"), "testkit: request: parent: it is a v1/ConfigMap, not a example.com/v1/Site"},
		"parent":          {sites(), nil, page("a", "b"), "testkit: request: parent: object is nil"},
		"child's type":    {sites(), site(nil), &corev1.Service{}, "testkit: request: child 0: v1/Service isn't one of the operator's child types"},
		"child's name":    {sites(), site(nil), page("", "b"), "testkit: request: child 0: "},
		"related type":    {sites(), site(nil), Related(page("a", "b")), "testkit: request: related object 0: v1/ConfigMap isn't one of the operator's related types"},
		"a nested object": {sites(), site(nil), []any{page("a", "b")}, "testkit: request: child 0: "},
	} {
		t.Run(name, func(t *testing.T) {
			failed := fake(t, func(tb testing.TB) { Request(tb, tc.cfg, tc.parent, tc.child) })
			require.Contains(t, failed.failure(), tc.want)
		})
	}
}
