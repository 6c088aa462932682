package testkit

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

// A gate holds back what watches of ConfigMaps tell, while it is closed.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

func (g *gate) lifted() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

func (g *gate) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper{next, func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err == nil && req.URL.Query().Get("watch") != "" && strings.HasSuffix(req.URL.Path, "/configmaps") {
			resp.Body = &gatedBody{ReadCloser: resp.Body, gate: g, ended: req.Context().Done()}
		}
		return resp, err
	}}
}

type gatedBody struct {
	io.ReadCloser

	gate  *gate
	ended <-chan struct{}
}

func (b *gatedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	select {
	case <-b.gate.lifted():
	case <-b.ended:
	}
	return n, err
}

func TestSettleWaitsForWhatOthersWrote(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		write  func(t *testing.T, maps typedcorev1.ConfigMapInterface) // another's
		lacks  string
	}{
		"change": {
			reason: "the operator hasn't heard that it has something to mend",
			write: func(t *testing.T, maps typedcorev1.ConfigMapInterface) {
				t.Helper()
				_, err := maps.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"data":{"value":"theirs"}}`), metav1.PatchOptions{})
				require.NoError(t, err)
			},
			lacks: "hasn't observed ConfigMap NS/one at resourceVersion ",
		},
		"deletion": {
			reason: "nor that something is gone",
			write: func(t *testing.T, maps typedcorev1.ConfigMapInterface) {
				t.Helper()
				require.NoError(t, maps.Delete(t.Context(), "one", metav1.DeleteOptions{}))
			},
			lacks: "hasn't observed the deletion of ConfigMap NS/one",
		},
		"change of a related object": {
			reason: "what the parent refers to has changed",
			write: func(t *testing.T, maps typedcorev1.ConfigMapInterface) {
				t.Helper()
				_, err := maps.Patch(t.Context(), "related", types.MergePatchType, []byte(`{"data":{"value":"new"}}`), metav1.PatchOptions{})
				require.NoError(t, err)
			},
			lacks: "hasn't observed ConfigMap NS/related at resourceVersion ",
		},
		"creation of a related object": {
			reason: "what the parent refers to is there now",
			write: func(t *testing.T, maps typedcorev1.ConfigMapInterface) {
				t.Helper()
				_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
				require.NoError(t, err)
			},
			lacks: "hasn't observed ConfigMap NS/later at resourceVersion ",
		},
		"deletion of a related object": {
			reason: "what the parent refers to has gone",
			write: func(t *testing.T, maps typedcorev1.ConfigMapInterface) {
				t.Helper()
				require.NoError(t, maps.Delete(t.Context(), "related", metav1.DeleteOptions{}))
			},
			lacks: "hasn't observed the deletion of ConfigMap NS/related",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, rc := newGate(), cluster.RESTConfig()
			rc.Wrap(g.wrap)
			cfg := widgets("kit-lag-" + strings.ReplaceAll(name, " ", "-"))
			cfg.Related = []config.Related{{Type: k8s.ConfigMap, Fields: []string{"spec.related"}}}
			kit := NewWithOptions(t, cluster, cfg, handler.SyncFunc(children), KitOptions{Runner: runner.Options{RESTConfig: rc}})
			kit.Create(configMap("related", map[string]string{"value": "old"}))
			kit.Create(widget("one", map[string]any{"value": "a", "related": []any{"related", "later"}}))
			require.NoError(t, kit.Settle(patience))
			others, err := kubernetes.NewForConfig(cluster.RESTConfig())
			require.NoError(t, err)

			g.shut()
			c.write(t, others.CoreV1().ConfigMaps(kit.Namespace))
			require.ErrorContains(t, kit.Settle(time.Second), strings.ReplaceAll(c.lacks, "NS", kit.Namespace), c.reason)
			g.lift()
			require.NoError(t, kit.Settle(patience))
			live := kit.Get(configMap("one", nil))
			require.NotNil(t, live)
			require.Equal(t, "a", field(live, "data", "value"), "by now it has")
		})
	}
}
