package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// A witness is what an operator says of itself, besides its requests.
type witness struct {
	mu       sync.Mutex
	log      bytes.Buffer
	registry *prometheus.Registry
	spans    *spans
}

func newWitness() *witness { return &witness{registry: prometheus.NewRegistry(), spans: &spans{}} }

func (w *witness) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *witness) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// metrics returns what a scrape would get.
func (w *witness) metrics() string {
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return rec.Body.String()
}

func (w *witness) options() testkit.KitOptions {
	return testkit.KitOptions{Runner: runner.Options{
		Logger:  slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: w.registry, TracerProvider: w.spans,
	}}
}

func TestC60_ChangeOnEveryCall(t *testing.T) {
	scenario(t, "C60", "a status or a child that changes on every call is throttled, and log, metric and Event name the field; ten Pods becoming Ready one after the other are no loop")
	t.Run("Status", func(t *testing.T) {
		var calls atomic.Int64
		looping(t, "c60s", "status.tick", "Parent", func(*handler.SyncRequest) *handler.SyncResponse {
			return &handler.SyncResponse{Status: map[string]any{"tick": calls.Add(1)}}
		})
	})
	t.Run("Child", func(t *testing.T) {
		var calls atomic.Int64
		looping(t, "c60c", "data.tick", "ConfigMap", func(*handler.SyncRequest) *handler.SyncResponse {
			return &handler.SyncResponse{Children: []any{configMap("child", "tick", fmt.Sprint(calls.Add(1)))}}
		})
	})
	t.Run("Names", func(t *testing.T) {
		var calls atomic.Int64
		looping(t, "c60n", "metadata.name", "ConfigMap", func(*handler.SyncRequest) *handler.SyncResponse {
			return &handler.SyncResponse{Children: []any{configMap(fmt.Sprintf("child-%d", calls.Add(1)), "k", "v")}}
		})
	})
	t.Run("Pods", func(t *testing.T) {
		s := newStage(t, "c60p", config.Child{Type: k8s.Pod, Strategy: config.Recreate})
		var pods []any
		for i := range 10 {
			pods = append(pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}}},
			})
		}
		s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
			ready := 0
			for pod := range req.Children.OfType(k8s.Pod).All() {
				if phase, _ := pod.Field("status", "phase"); phase == "Running" {
					ready++
				}
			}
			return &handler.SyncResponse{Children: pods, Status: map[string]any{"ready": ready}}
		})
		settle(t, s.Kit)
		for i := range 10 {
			s.UpdateStatus(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			})
			eventually(t, "the status follows at once", func() bool {
				ready, _ := s.Get(parent("one", nil)).Field("status", "ready")
				return ready == int64(i+1)
			})
		}
		require.NoError(t, s.Settle(patience))
	})
}

// looping runs an operator whose handler never comes to rest, and requires
// that it is slowed down and told of.
func looping(t *testing.T, name, field, kind string, answer func(*handler.SyncRequest) *handler.SyncResponse) {
	t.Helper()
	w := newWitness()
	s := newStageWith(t, unbounded(operator(name, configMapChild())), w.options())
	s.answer(answer)
	eventually(t, "an Event that names the field", func() bool { return anyContains(s.Events(parent("one", nil)), "Warning", "ConflictLoop", field) })
	require.Contains(t, w.logged(), "conflict loop")
	require.Contains(t, w.logged(), field)
	require.Contains(t, w.metrics(), "roperator_conflict_loops_total")
	require.Contains(t, w.metrics(), kind)
	var loop *testkit.HotLoopError
	require.ErrorAs(t, s.Settle(patience), &loop)
	require.Contains(t, loop.Path, field)

	slow(t, func() int { return s.Syncs(parent("one", nil)) })
}

// unbounded lifts the bound on backoffs that other scenarios need.
func unbounded(cfg config.Operator) config.Operator {
	cfg.MaxErrorBackoff = 0
	return cfg
}

func TestC61_TwoOperatorsFight(t *testing.T) {
	scenario(t, "C61", "two operators that fight over a field: both throttled")
	t.Run("TwoBuilds", func(t *testing.T) {
		// Two builds of one operator that run side by side: both own the child.
		firstWitness, secondWitness := newWitness(), newWitness()
		cfg := unbounded(operator("c61", configMapChild()))
		first := newStageWith(t, cfg, firstWitness.options())
		first.want(configMap("shared", "k", "mine"))
		opts := secondWitness.options()
		opts.Namespace = first.Namespace
		second := testkit.NewWithOptions(t, cluster, cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{configMap("shared", "k", "theirs")}, Status: map[string]any{"phase": "Fine"}}, nil
		}), opts)
		for _, w := range []*witness{firstWitness, secondWitness} {
			eventually(t, "both are throttled", func() bool { return strings.Contains(w.logged(), "conflict loop") })
			require.Contains(t, w.logged(), "data.k")
			require.Contains(t, w.logged(), `suspect="another process of the operator \"c61\" seems to do that`)
		}
		eventually(t, "the Event suspects it, too", func() bool {
			return anyContains(first.Events(parent("one", nil)), "ConflictLoop", "data.k", `another process of the operator "c61"`)
		})
		slow(t, func() int {
			return len(verbs(first.Writes(), "ConfigMap", "shared")) + len(verbs(second.Writes(), "ConfigMap", "shared"))
		})
	})
	t.Run("Stranger", func(t *testing.T) {
		s := newStageWith(t, unbounded(operator("c61s", configMapChild())), testkit.KitOptions{})
		s.want(configMap("shared", "k", "mine"))
		defer fighter(t, s, "shared", "theirs")()
		eventually(t, "it is throttled", func() bool { return anyContains(s.Events(parent("one", nil)), "ConflictLoop", "data.k") })
		require.True(t, anyContains(s.Events(parent("one", nil)), "ConflictLoop", `the field manager "fighter" does that (Update)`), "%q", s.Events(parent("one", nil)))
		require.False(t, anyContains(s.Events(parent("one", nil)), "another process"))
		slow(t, func() int { return len(verbs(s.Writes(), "ConfigMap", "shared")) })
	})
}

// slow requires that something that never ends has become rare.
func slow(t *testing.T, count func() int) {
	t.Helper()
	before := count()
	end := time.NewTimer(fullSilence)
	defer end.Stop()
	<-end.C
	require.LessOrEqual(t, count()-before, 12)
}

// fighter restores its own value in a ConfigMap as often as anyone changes it,
// until it is stopped.
func fighter(t *testing.T, s *stage, name, value string) (stop func()) {
	t.Helper()
	typed, _ := clients(t, "fighter")
	ctx, cancel := context.WithCancel(t.Context())
	w, err := typed.CoreV1().ConfigMaps(s.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	require.NoError(t, err)
	var done sync.WaitGroup
	done.Go(func() {
		for event := range w.ResultChan() {
			cm, ok := event.Object.(*corev1.ConfigMap)
			if !ok || cm.Data["k"] == value {
				continue
			}
			patch := fmt.Appendf(nil, `{"data":{"k":%q}}`, value)
			if _, err := typed.CoreV1().ConfigMaps(s.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return
			}
		}
	})
	return func() {
		cancel()
		w.Stop()
		done.Wait()
	}
}

func TestC62_SecretsStaySecret(t *testing.T) {
	scenario(t, "C62", "a Secret's values appear in none of log, Event, metric, trace, plan")
	const canary = "kanarienvogel"
	w := newWitness()
	s := newStageWith(t, unbounded(operator("c62", config.Child{Type: k8s.Secret, Strategy: config.Replace})), w.options())
	secret := func(value string, more ...string) map[string]any {
		data := map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(canary + value))}
		for _, key := range more {
			data[key] = data["password"]
		}
		return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "hidden"}, "data": data}
	}
	s.want(secret("1"))
	// Drift, a refused write, a fatal response, and a loop.
	s.Update(secret("2"))
	settle(t, s.Kit)
	s.ask(secret("3", "not a valid key!"))
	eventually(t, "the Secret is refused", func() bool { return len(s.errors()) > 0 })
	refused := s.errors()
	s.ask(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "hidden"}, "data": map[string]any{"password": canary + "!not base64!"}})
	eventually(t, "the Secret is malformed", func() bool { return len(s.errors()) > len(refused) })
	s.answer(func(*handler.SyncRequest) *handler.SyncResponse { return nil })
	var calls atomic.Int64
	s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
		return &handler.SyncResponse{Children: []any{secret(fmt.Sprint("loop", calls.Add(1)))}}
	})
	eventually(t, "a loop is found", func() bool { return anyContains(s.Events(parent("one", nil)), "ConflictLoop", "data.password") })

	said := w.logged() + w.metrics() + fmt.Sprint(s.Events(parent("one", nil))) + errors.Join(s.errors()...).Error()
	require.Contains(t, said, "hidden")
	for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))[:16]} {
		require.NotContains(t, said, form)
	}
}
