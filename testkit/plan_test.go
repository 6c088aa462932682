package testkit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

var siteType = resource.Type{APIVersion: "example.com/v1", Kind: "Site"}

// sites is an operator with a child type of each strategy.
func sites() config.Operator {
	return config.Operator{Name: "sites", Parent: siteType, Children: []config.Child{
		{Type: k8s.ConfigMap, Strategy: config.Replace},
		{Type: k8s.Pod, Strategy: config.Recreate},
		{Type: k8s.Secret, Strategy: config.Apply},
		{Type: k8s.Namespace, Strategy: config.OnDelete},
	}}
}

func site(spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": "example.com/v1", "kind": "Site", "metadata": map[string]any{"name": "one"}, "spec": spec}
}

func page(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"page": text}}
}

func pod(image string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}}}
}

func secret(password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{"password": []byte(password)}}
}

// siteHandler wants a page that says spec.text, a Pod, a Secret.
func siteHandler(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	text, _ := req.Parent.Field("spec", "text")
	s, ok := text.(string)
	if !ok {
		return nil, errors.New("spec.text: it must be set")
	}
	return &handler.SyncResponse{
		Status:   map[string]any{"children": req.Children.Len(), "text": s},
		Children: []any{page("index", s), pod("nginx"), secret("hunter2")},
	}, nil
}

// explained is siteHandler with a status that tells of its errors.
var explained = handler.Funcs{
	SyncFunc: siteHandler,
	ErrorFunc: func(_ context.Context, _ *handler.SyncRequest, err error) (any, time.Duration) {
		return map[string]any{"message": err.Error()}, 0
	},
}

func finalizingSite(done bool) handler.Handler {
	return handler.Funcs{SyncFunc: siteHandler, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return &handler.FinalizeResponse{Finalized: done, Status: map[string]any{"phase": "Finalizing"}}, nil
	}}
}

func deleted(parent map[string]any) map[string]any {
	parent["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	return parent
}

func TestSync(t *testing.T) {
	t.Parallel()
	h := handler.SyncFunc(siteHandler)
	now := site(map[string]any{"text": "hello"})
	old := page("index", "bye")
	old.Annotations = map[string]string{"theirs": "x"}
	gone := page("gone", "x")
	for name, tc := range map[string]struct {
		reason string
		test   func(t testing.TB)
		want   []string // what a failure says; none: it succeeds
		not    []string // what it doesn't say
	}{
		"created": {
			reason: "all that is expected is there",
			test: func(t testing.TB) {
				Sync(t, sites(), h, now).WantCreate(page("index", "hello")).WantCreate(pod("nginx")).WantCreate(secret("hunter2")).
					WantStatus(map[string]any{"text": "hello", "observedGeneration": 1})
			},
		},
		"up to date": {
			reason: "what a server fills in is no difference",
			test: func(t testing.TB) {
				live := pod("nginx")
				live.Spec.RestartPolicy, live.Spec.DNSPolicy = corev1.RestartPolicyAlways, corev1.DNSClusterFirst
				parent := site(map[string]any{"text": "hello"})
				parent["status"] = map[string]any{"children": 3, "text": "hello"}
				Sync(t, sites(), h, parent, page("index", "hello"), live, secret("hunter2")).WantNothing()
			},
		},
		"changed": {
			reason: "each by its strategy; what others have set stays",
			test: func(t testing.TB) {
				index := page("index", "hello")
				index.Annotations = map[string]string{"theirs": "x"}
				Sync(t, sites(), h, now, old, pod("httpd"), secret("old"), gone).
					WantUpdate(index).WantUpdate(pod("nginx")).WantUpdate(secret("hunter2")).WantDelete(gone).WantStatus(map[string]any{"children": 4})
			},
		},
		"on delete": {
			reason: "it waits until somebody deletes it",
			test: func(t testing.TB) {
				cfg := sites()
				cfg.Children[0].Strategy = config.OnDelete
				Sync(t, cfg, h, now, old, pod("nginx"), secret("hunter2")).WantStatus(map[string]any{"text": "hello"})
			},
		},
		"unexpected": {
			reason: "whatever the test doesn't name",
			test: func(t testing.TB) {
				Sync(t, sites(), h, now, old, secret("old"), gone).WantCreate(pod("nginx"))
			},
			want: []string{
				"Site default/one: not expected:", "update ConfigMap default/index", `data.page: "bye" -> "hello"`, "update Secret default/key", "data.password: (not shown) -> (not shown)",
				"delete ConfigMap default/gone", `status {"children":3,"observedGeneration":1,"text":"hello"}`,
			},
			not: []string{"hunter2", "aHVudGVyMg==", "Pod"},
		},
		"another value": {
			reason: "the field, with both values, and the whole plan",
			test: func(t testing.TB) {
				Sync(t, sites(), h, now, pod("nginx"), secret("hunter2")).WantCreate(page("index", "bonjour")).WantStatus(map[string]any{"text": "bonjour"})
			},
			want: []string{
				"create ConfigMap default/index isn't as wanted:", `data.page: planned "hello", want "bonjour"`, "the plan for Site default/one:\n  create ConfigMap default/index",
				"the status isn't as wanted:", `status.text: planned "hello", want "bonjour"`,
			},
			not: []string{"not expected"},
		},
		"another value in a Secret": {
			reason: "the field, without either value",
			test: func(t testing.TB) {
				Sync(t, sites(), h, now, page("index", "hello"), pod("nginx")).WantCreate(secret("other")).WantStatus(map[string]any{"text": "hello"})
			},
			want: []string{"data.password: planned (not shown), want (not shown)"},
			not:  []string{"hunter2", "aHVudGVyMg=="},
		},
		"another verb": {
			reason: "it says which",
			test: func(t testing.TB) {
				Sync(t, sites(), h, now, old, pod("nginx"), secret("hunter2")).WantCreate(page("index", "hello")).WantDelete(pod("")).WantStatus(map[string]any{})
			},
			want: []string{"want create ConfigMap default/index, not update", "want delete Pod default/web\n"},
		},
		"nothing": {
			reason: "there is something",
			test:   func(t testing.TB) { Sync(t, sites(), h, now).WantNothing() },
			want:   []string{"want nothing to do", "create Pod default/web"},
			not:    []string{"not expected"},
		},
		"let go": {
			reason: "the finalizer is filled in, as the engine would have set it",
			test: func(t testing.TB) {
				Sync(t, sites(), finalizingSite(true), deleted(site(nil)), page("index", "x")).WantDelete(site(nil))
			},
		},
		"not let go": {
			reason: "the handler isn't done",
			test: func(t testing.TB) {
				Sync(t, sites(), finalizingSite(false), deleted(site(nil))).WantDelete(site(nil)).WantStatus(map[string]any{"phase": "Finalizing"})
			},
			want: []string{"want Site default/one let go"},
		},
		"let go unexpectedly": {
			reason: "it isn't to be overlooked",
			test:   func(t testing.TB) { Sync(t, sites(), finalizingSite(true), deleted(site(nil))) },
			want:   []string{"not expected:\n  let go Site default/one"},
		},
		"handler error": {
			reason: "with the parent",
			test:   func(t testing.TB) { Sync(t, sites(), h, site(nil)) },
			want:   []string{"Site default/one: not expected:\n  fail: handler: Sync: spec.text: it must be set"},
		},
		"handler error with status": {
			reason: "each by itself",
			test:   func(t testing.TB) { Sync(t, sites(), explained, site(nil), page("index", "hello")) },
			want:   []string{"not expected:\n  fail: handler: Sync: spec.text: it must be set\n  status {", `"message":"spec.text: it must be set"`},
			not:    []string{"ConfigMap"},
		},
		"error wanted": {
			reason: "an error alone leaves all as it is",
			test: func(t testing.TB) {
				parent := site(nil)
				parent["status"] = map[string]any{"text": "hello"}
				Sync(t, sites(), h, parent, page("index", "hello")).WantError("spec.text").
					WantStatus(map[string]any{"text": "hello"}).WantNothing()
			},
		},
		"error and status wanted": {
			reason: "the children stay, the status tells of the error and which generation it is about",
			test: func(t testing.TB) {
				Sync(t, sites(), explained, site(nil), page("index", "hello")).WantError("spec.text: it must be set").
					WantStatus(map[string]any{"message": "spec.text: it must be set", "observedGeneration": 1})
			},
		},
		"error and status told before": {
			reason: "a parent that stays wrong costs no request",
			test: func(t testing.TB) {
				parent := site(nil)
				parent["status"] = map[string]any{"message": "spec.text: it must be set"}
				Sync(t, sites(), explained, parent).WantError("spec.text").WantNothing()
			},
		},
		"another error": {
			reason: "it says which, and the plan",
			test:   func(t testing.TB) { Sync(t, sites(), h, site(nil)).WantError("spec.image") },
			want: []string{
				`want an error with "spec.image", not "handler: Sync: spec.text: it must be set"`,
				"the plan for Site default/one:\n  fail: handler: Sync: spec.text: it must be set",
			},
			not: []string{"not expected"},
		},
		"no error": {
			reason: "the pass would succeed",
			test: func(t testing.TB) {
				Sync(t, sites(), finalizingSite(true), deleted(site(nil))).WantError("spec").WantDelete(site(nil))
			},
			want: []string{`want an error with "spec"` + "\nthe plan for Site default/one:\n  let go Site default/one"},
		},
		"error instead of nothing": {
			reason: "a pass that fails isn't at rest",
			test:   func(t testing.TB) { Sync(t, sites(), h, site(nil)).WantNothing() },
			want:   []string{"want nothing to do", "fail: handler: Sync: spec.text"},
			not:    []string{"not expected"},
		},
		"finalize error": {
			reason: "it doesn't let go, whatever it says",
			test: func(t testing.TB) {
				Sync(t, sites(), handler.Funcs{FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
					return &handler.FinalizeResponse{Finalized: true, Status: map[string]any{"phase": "Finalizing"}}, errors.New("the disk is busy")
				}}, deleted(site(nil))).WantError("the disk is busy").WantStatus(map[string]any{"phase": "Finalizing"})
			},
		},
		"refused response wanted": {
			reason: "that is an error of the pass too",
			test: func(t testing.TB) {
				Sync(t, sites(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					return &handler.SyncResponse{Children: []any{page("", "")}}, nil
				}), now).WantError("metadata.name").WantNothing()
			},
		},
		"refused response": {
			reason: "the engine's own words",
			test: func(t testing.TB) {
				Sync(t, sites(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					return &handler.SyncResponse{Children: []any{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}}}}, nil
				}), now)
			},
			want: []string{"Site default/one: not expected:\n  fail: invalid response: child 0: v1/Service s: kind: not a configured child type"},
		},
		"bad configuration": {
			reason: "every mistake",
			test:   func(t testing.TB) { Sync(t, config.Operator{}, h, now) },
			want:   []string{"Name", "Parent"},
		},
		"wrong parent": {
			reason: "which it is and should be",
			test:   func(t testing.TB) { Sync(t, sites(), h, page("x", "")) },
			want:   []string{"parent: it is a v1/ConfigMap, not a example.com/v1/Site"},
		},
		"wrong child": {
			reason: "which it is",
			test: func(t testing.TB) {
				Sync(t, sites(), h, now, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}})
			},
			want: []string{"child 0: v1/Service isn't one of the operator's child types"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fake(t, tc.test)
			if len(tc.want) == 0 {
				require.Empty(t, f.failure(), tc.reason)
			}
			for _, text := range tc.want {
				require.Contains(t, f.failure(), text, tc.reason)
			}
			for _, text := range tc.not {
				require.NotContains(t, f.failure(), text, tc.reason)
			}
		})
	}
}

func TestGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "testdata", "plan.yaml")
	h := handler.SyncFunc(siteHandler)
	plan := func(tb testing.TB, text string) {
		Sync(tb, sites(), h, site(map[string]any{"text": text}), page("gone", "x")).Golden(path)
	}
	f := fake(t, func(tb testing.TB) { plan(tb, "hello") })
	require.Contains(t, f.failure(), path+" doesn't exist; to write it: ROPERATOR_UPDATE_GOLDEN=1 go test -run '^TestGolden$' .")
	t.Setenv(goldenVariable, "1")
	plan(t, "hello")
	t.Setenv(goldenVariable, "")
	plan(t, "hello")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(text), "hunter2")
	require.NotContains(t, string(text), "aHVudGVyMg==")
	require.Contains(t, string(text), "verb: delete")
	f = fake(t, func(tb testing.TB) { plan(tb, "bye") })
	require.Contains(t, f.failure(), "-       page: hello\n+       page: bye\n")
	require.Contains(t, f.failure(), "  …\n", "what is far from a change is left out")

	f = fake(t, func(tb testing.TB) { Sync(tb, sites(), h, site(nil)).Golden(path) })
	require.Contains(t, f.failure(), "+ error: 'handler: Sync: spec.text: it must be set'", "a pass that fails is a plan too")
}

func TestDiffText(t *testing.T) {
	for name, tc := range map[string]struct {
		reason              string
		before, after, want string
	}{
		"changed": {"one line", "a\nb\nc\n", "a\nx\nc\n", "  a\n- b\n+ x\n  c"},
		"far":     {"what is far is left out", "1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\n7\n", "  …\n  3\n  4\n  5\n- 6\n+ 7"},
		"apart":   {"also between two places", "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "1\n2\n3\n4\n5\n6\n7\n", "- a\n  1\n  2\n  3\n  …\n  5\n  6\n  7\n- b"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, diffText(tc.before, tc.after), tc.reason)
		})
	}
}

// testkit.Sync plays an operator that runs, or one with DryRun.
func TestSyncIsAPlanOnlyInADryRun(t *testing.T) {
	t.Parallel()
	says := handler.SyncFunc(func(ctx context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Status: map[string]any{"plan": handler.IsPlan(ctx)}}, nil
	})
	cfg := sites()
	Sync(t, cfg, says, site(nil)).WantStatus(map[string]any{"plan": false})
	cfg.DryRun = true
	Sync(t, cfg, says, site(nil)).WantStatus(map[string]any{"plan": true})
}
