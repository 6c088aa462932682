package manager_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

var otherParent = resource.Type{APIVersion: "example.com/v1", Kind: "Other"}

// twoOperators have parents and children of different types.
func twoOperators(first, second handler.Handler) []manager.Spec {
	other := rig.Config()
	other.Name, other.Parent = "other", otherParent
	other.Children = []config.Child{{Type: k8s.Secret, Strategy: config.Replace}}
	return []manager.Spec{{Config: rig.Config(), Handler: first}, {Config: other, Handler: second}}
}

func TestRunAll(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.Custom(otherParent, "others"), fakeapi.ConfigMaps(), fakeapi.Secrets(),
			fakeapi.Kind{Type: leaseType, Plural: "leases"})
		crash := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) { panic("boom") })
		secrets := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{map[string]any{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": req.Parent.Name()},
			}}}, nil
		})
		logs := &rig.Logs{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			ended <- rig.RunAll(ctx, manager.Options{
				RESTConfig: server.RESTConfig(), Logger: slog.New(slog.NewTextHandler(logs, nil)), LeaderElection: &lead.Config{Namespace: "ns"},
			}, twoOperators(crash, secrets)...)
		}()
		rig.CreateParent(t, server, "crashes", "v")
		_, err := server.Create(map[string]any{"apiVersion": otherParent.APIVersion, "kind": "Other", "metadata": map[string]any{"name": "one", "namespace": "ns"}})
		require.NoError(t, err)
		rig.Elapse(time.Minute)
		require.NotNil(t, server.Get(k8s.Secret, rig.Key("one")))
		require.Contains(t, logs.String(), "controller=op")
		require.Contains(t, logs.String(), "handler: Sync: panic: boom")
		leases, agents := map[string]bool{}, map[string]bool{}
		for _, r := range server.Requests() {
			if r.Type == leaseType {
				leases[r.Key.String()] = true
			} else {
				agents[r.UserAgent] = true
			}
		}
		require.Equal(t, map[string]bool{"ns/op": true}, leases, "one for both")
		require.Equal(t, map[string]bool{"op/roperator": true, "other/roperator": true}, agents)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestRunAll_Mistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rig.Server() // which doesn't serve Other
		opts := manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()}
		h := handler.SyncFunc(rig.Copier)
		require.ErrorContains(t, rig.RunAll(t.Context(), opts), "there is no operator to run")
		require.ErrorContains(t, rig.RunAll(t.Context(), opts, manager.Spec{Config: rig.Config(), Handler: h}, manager.Spec{Config: rig.Config(), Handler: h}), `two operators have the name "op"`)
		err := rig.RunAll(t.Context(), opts, manager.Spec{Config: rig.Config(), Handler: nil}, manager.Spec{Config: config.Operator{Name: "bad name"}, Handler: h})
		require.ErrorContains(t, err, `the handler of operator "op" is nil`)
		require.ErrorContains(t, err, "bad name")
		err = rig.RunAll(t.Context(), opts, twoOperators(h, h)...)
		require.ErrorContains(t, err, "example.com/v1/Other: the API server doesn't serve this type")
		require.Empty(t, server.Writes(), "none of them has started")
		opts.Metrics, opts.MetricsAddress = observe.NewRegistry(prometheus.WrapRegistererWithPrefix("x_", prometheus.NewRegistry())), "127.0.0.1:0"
		require.ErrorContains(t, rig.RunAll(t.Context(), opts, manager.Spec{Config: rig.Config(), Handler: h}), "can't be read: use a *prometheus.Registry")
	})
}

// hang is more than enough for what takes an idle machine milliseconds.
const hang = 5 * time.Minute

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { require.NoError(t, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func TestServer(t *testing.T) {
	for name, shared := range map[string]bool{"two addresses": false, "one address": true} {
		t.Run(name, func(t *testing.T) {
			server := rig.Server()
			cfg := rig.Config()
			cfg.Namespaces = []string{"ns"}
			opts := manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()}
			listed := make(chan struct{})
			server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
				if r.Type == k8s.ConfigMap && !r.Writes() {
					<-listed
				}
				return nil
			}})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			health := ""
			for begun := false; !begun; {
				opts.MetricsAddress = plane.FreeAddress(t)
				opts.HealthAddress = opts.MetricsAddress
				if !shared {
					opts.HealthAddress = plane.FreeAddress(t)
				}
				health = "http://" + opts.HealthAddress
				go func(opts manager.Options) { ended <- rig.RunOne(ctx, cfg, handler.SyncFunc(rig.Copier), opts) }(opts)
				require.Eventually(t, func() bool {
					_, body := get(t, health+"/readyz")
					return len(ended) > 0 || strings.Contains(body, "[-]informer/op/v1/ConfigMap,namespace=ns failed: ")
				}, hang, 10*time.Millisecond, "a list hasn't arrived")
				if begun = len(ended) == 0; !begun {
					require.ErrorContains(t, <-ended, "address already in use", "somebody else was faster")
				}
			}
			code, body := get(t, health+"/readyz?verbose")
			require.Equal(t, http.StatusInternalServerError, code)
			require.Contains(t, body, "readyz check failed")
			code, body = get(t, health+"/healthz")
			require.Equal(t, http.StatusOK, code)
			require.Equal(t, "ok", body)
			close(listed)
			require.Eventually(t, func() bool { code, body := get(t, health+"/readyz"); return code == http.StatusOK && body == "ok" }, hang, 10*time.Millisecond)
			code, body = get(t, health+"/readyz?verbose")
			require.Equal(t, http.StatusOK, code)
			require.Equal(t, "[+]passes/op ok\n[+]informer/op/example.com/v1/Parent,namespace=ns ok\n[+]informer/op/v1/ConfigMap,namespace=ns ok\nreadyz check passed\n", body)
			code, body = get(t, "http://"+opts.MetricsAddress+"/metrics")
			require.Equal(t, http.StatusOK, code)
			require.Contains(t, body, `roperator_queue_depth{controller="op"} 0`)
			require.Contains(t, body, "go_goroutines")
			if !shared {
				code, _ = get(t, health+"/metrics")
				require.Equal(t, http.StatusNotFound, code)
			}
			cancel()
			require.NoError(t, <-ended)
			_, body = get(t, health+"/healthz")
			require.NotEqual(t, "ok", body, "it doesn't listen any more")
		})
	}
}

func TestServer_PortInUse(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	taken := l.Addr().String()
	for flag, opts := range map[string]manager.Options{
		"MetricsAddress " + taken: {MetricsAddress: taken, HealthAddress: "127.0.0.1:0"},
		"HealthAddress " + taken:  {MetricsAddress: "127.0.0.1:0", HealthAddress: taken},
	} {
		opts.RESTConfig, opts.Logger = rig.Server().RESTConfig(), sample.DiscardLog()
		err := rig.RunOne(t.Context(), rig.Config(), handler.SyncFunc(rig.Copier), opts)
		require.ErrorContains(t, err, flag)
		require.ErrorContains(t, err, "address already in use; choose another (--")
	}
}
