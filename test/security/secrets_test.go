package security

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// A tattler is an admission webhook for Secrets that denies some operations, and tells the
// values that it has seen wherever an answer has room for text.
type tattler struct {
	denies atomic.Value // string: the operation; empty: none
	asked  atomic.Int64
}

// serve registers the webhook for a namespace until the test ends, and returns when the
// API server asks it.
func (w *tattler) serve(t *testing.T, namespace string) {
	t.Helper()
	w.denies.Store("")
	server := httptest.NewUnstartedServer(w)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	hooks := clients(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := hooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "tattle.security.roperator.com",
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(30)),
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, hooks.Delete(context.Background(), namespace, metav1.DeleteOptions{})) })
}

// ServeHTTP answers an AdmissionReview.
func (w *tattler) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	w.asked.Add(1)
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Warnings: []string{canary}}
	if operation := string(review.Request.Operation); operation == w.denies.Load() {
		review.Response.Allowed = false
		review.Response.Result = tattle([]int32{403, 422, 409, 471}[w.asked.Load()%4])
	}
	review.Request = nil
	out.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(out).Encode(review); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// tattle returns a Status with the canary wherever there is room, and words like RBAC's.
func tattle(code int32) *metav1.Status {
	encoded := base64.StdEncoding.EncodeToString([]byte(canary + "1"))
	return &metav1.Status{
		Code: code, Reason: canary, Message: canary + `: User "op" cannot delete resource "*" in API group "*" in the namespace "kube-system"`,
		Details: &metav1.StatusDetails{
			Name: canary, Group: canary, Kind: encoded, UID: canary,
			Causes: []metav1.StatusCause{
				{Type: canary, Message: "it is immutable: " + canary, Field: "data." + canary},
				{Type: metav1.CauseTypeForbidden, Message: encoded, Field: "data[" + encoded + "]"},
			},
		},
	}
}

// A listener hears all that an operator tells: its log, its metrics and its spans.
type listener struct {
	noop.TracerProvider

	registry *prometheus.Registry
	mu       sync.Mutex
	text     bytes.Buffer
}

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *listener) heard() string {
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(l.registry, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String() + rec.Body.String()
}

func (l *listener) Tracer(string, ...trace.TracerOption) trace.Tracer { return listeningTracer{to: l} }

type listeningTracer struct {
	noop.Tracer

	to *listener
}

func (t listeningTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	cfg := trace.NewSpanStartConfig(opts...)
	fmt.Fprintln(t.to, "span", name, cfg.Attributes())
	s := listeningSpan{to: t.to}
	return trace.ContextWithSpan(ctx, s), s
}

type listeningSpan struct {
	noop.Span

	to *listener
}

func (s listeningSpan) IsRecording() bool                         { return true }
func (s listeningSpan) SetAttributes(attrs ...attribute.KeyValue) { fmt.Fprintln(s.to, attrs) }
func (s listeningSpan) SetStatus(code codes.Code, text string)    { fmt.Fprintln(s.to, code, text) }
func (s listeningSpan) RecordError(err error, _ ...trace.EventOption) {
	fmt.Fprintln(s.to, "span error", err)
}

// A webhook that sees Secrets told their values by its answers: not by the message, which
// was cut, but by everything else. It also chose the RBAC rule that people were advised
// to add.
func TestAWebhookTellsValuesOfSecretsAnywhereInItsAnswer(t *testing.T) {
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			var wanted atomic.Value
			wanted.Store("1")
			var recording bytes.Buffer
			var recorded sync.Mutex
			h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				resp := &handler.SyncResponse{Status: map[string]any{"failed": fmt.Sprint(req.LastErrors)}} // as a careless handler does
				if value, _ := wanted.Load().(string); value != "" {
					resp.Children = []any{secret("told", value)}
				}
				return resp, nil
			})
			l := &listener{registry: prometheus.NewRegistry()}
			cfg := operator("tattler-" + strings.ToLower(string(strategy)))
			cfg.Children = []config.Child{{Type: k8s.Secret, Strategy: strategy}}
			kit := testkit.NewWithOptions(t, cluster, cfg, testkit.Record(lockedWriter{&recorded, &recording}, h), testkit.KitOptions{Runner: runner.Options{
				Logger: slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.Level(-8)})), Metrics: l.registry, TracerProvider: l,
			}})
			hook := &tattler{}
			hook.serve(t, kit.Namespace)
			denied := func(operation, value string) {
				hook.denies.Store(operation)
				wanted.Store(value)
				before := hook.asked.Load() // of each request that it answers in one way after the other
				kit.Update(parent("p", map[string]any{"now": operation}))
				eventually(t, operation+" is denied", func() bool { return hook.asked.Load() >= before+8 })
			}
			hook.denies.Store("CREATE")
			kit.Create(parent("p", nil))
			eventually(t, "CREATE is denied", func() bool {
				said := fmt.Sprint(kit.HandlerErrors(parent("p", nil)))
				return strings.Contains(said, "Secret") && len(kit.HandlerErrors(parent("p", nil))) >= 8
			})
			hook.denies.Store("")
			kit.EventuallyExists(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "told"}}, patience)
			if strategy == config.Recreate {
				denied("CREATE", "2") // dry runs of which come before the delete
			} else {
				denied("UPDATE", "2")
			}
			planning := cfg
			planning.Namespaces = []string{kit.Namespace}
			changes, err := runner.Plan(t.Context(), planning, h, runner.Options{RESTConfig: cluster.RESTConfig(), Logger: slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.Level(-8)}))})
			require.Error(t, err)
			denied("DELETE", "")

			require.Greater(t, hook.asked.Load(), int64(10))
			var said strings.Builder
			fmt.Fprintln(&said, l.heard(), changes, err, kit.HandlerErrors(parent("p", nil)), kit.Events(parent("p", nil)), kit.Get(parent("p", nil)).Unstructured().Object)
			recorded.Lock()
			fmt.Fprintln(&said, recording.String())
			recorded.Unlock()
			for _, want := range []string{"Secret", "told", "span error", "the rest of the answer may quote the Secret", "roperator_"} {
				require.True(t, strings.Contains(said.String(), want), "%q isn't said: nothing was looked for", want) //nolint:testifylint // it is long
			}
			noCanary(t, "all that is told", said.String())
			for reason, wrong := range map[string]string{"no right is missing": "add the rule", "a status code may be a value": ": 471 ", "it may be one in a metric": `code="471"`} {
				require.False(t, strings.Contains(said.String(), wrong), "%s: %q", reason, wrong) //nolint:testifylint // it is long
			}
			require.True(t, strings.Contains(said.String(), `code="other"`)) //nolint:testifylint // it is long
		})
	}
}

// A lockedWriter lets a text be read while it is written.
type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// The mark of a Secret and the names under which dry runs create it had a hash of its
// values. Whoever could read annotations or audit logs found out a PIN by trying.
func TestNothingBesideASecretDependsOnItsValues(t *testing.T) {
	t.Parallel()
	annotations := func(value string) map[string]string {
		kit := testkit.New(t, cluster, operator("oracle"), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{secret("pin", value)}}, nil
		}))
		kit.Create(parent("p", nil))
		eventually(t, "the Secret is there", func() bool { return kit.Get(secret("pin", "")) != nil })
		out := kit.Get(secret("pin", "")).Annotations()
		require.NotEmpty(t, out["roperator.com/applied"])
		return map[string]string{"mark": withoutName(out["roperator.com/applied"])}
	}
	require.Equal(t, annotations("0000"), annotations("1234"))
}

// withoutName returns the text of a mark without the check sum of the object's name and
// namespace.
func withoutName(mark string) string {
	parts := strings.SplitN(mark, ":", 4)
	return strings.Join([]string{parts[0], parts[1], parts[3]}, ":")
}
