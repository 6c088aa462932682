package security

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// readsSecrets begins the names of operators whose parents name Secrets.
const readsSecrets = "reads-"

// reading is an operator whose parents name Secrets, and have Secrets as children.
func reading(name string) config.Operator {
	cfg := operator(name)
	cfg.Related = []config.Related{{Type: k8s.Secret, Fields: []string{"spec.secret"}}}
	return cfg
}

// readTroubles are the parents of a troubled reader, and what an Event says of each; nothing:
// that its child is there is enough.
func readTroubles() map[string]string {
	return map[string]string{
		"good": "", "panics": "panic", "panics-in-relate": "panic", "fails": "there is trouble", "permanent": "there is trouble",
		"loops": "ConflictLoop", "label": "roperator.com/parent-uid", "elsewhere": "isn't the parent's", "key": "Secret",
	}
}

// troubledReader answers as the parent's name says. It has the Secrets that a parent names at
// hand, and copies them.
func troubledReader() handler.Handler {
	return handler.Funcs{SyncFunc: readAndFail, RelateFunc: func(parent *resource.Resource) ([]handler.Ref, error) {
		switch parent.Name() {
		case "panics-in-relate":
			panic("no idea")
		case "elsewhere":
			return []handler.Ref{{Type: k8s.Secret, Namespace: "kube-system", Name: "shared"}}, nil
		}
		return nil, nil
	}}
}

func readAndFail(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	name := req.Parent.Name()
	var value []byte
	for it, err := range handler.RelatedAs[*corev1.Secret](req, k8s.Secret) {
		if err != nil {
			return nil, err
		}
		value = it.Data["token"]
	}
	data := map[string]any{"copy": base64.StdEncoding.EncodeToString(value)}
	meta := map[string]any{"name": name}
	switch name {
	case "panics":
		list, ok := req.Related.All(), false
		data["copy"] = value[len(value)] // both are in scope, and not what the panic says
		data["list"], data["ok"] = list, ok
	case "fails":
		return nil, fmt.Errorf("there is trouble with %v, %+v and %v", req.Related, req, slices.Collect(req.Related.All()))
	case "permanent":
		return nil, handler.Permanent(errors.New("there is trouble for good"))
	case "loops":
		data["tick"] = base64.StdEncoding.EncodeToString(fmt.Append(value, ticks.Add(1)))
	case "label":
		meta["labels"] = map[string]any{"roperator.com/parent-uid": "other"}
	case "key":
		data["not a key!"] = data["copy"]
	}
	return &handler.SyncResponse{
		Status:   map[string]any{"read": req.Related.Len()},
		Children: []any{map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}},
	}, nil
}

// createTroubles creates a Secret, and the parents that refer to it.
func createTroubles(kit *testkit.Kit) {
	kit.Create(secret("shared", "1"))
	for name := range readTroubles() {
		kit.Create(parent(name, map[string]any{"secret": "shared"}))
	}
}

// told waits until all trouble has been told of, and returns what Events and parents say.
func told(t *testing.T, kit *testkit.Kit) string {
	t.Helper()
	kit.Update(secret("shared", "2"))
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(readTroubles())) {
		if text := readTroubles()[name]; text != "" {
			eventually(t, "an Event of "+name, func() bool { return strings.Contains(strings.Join(kit.Events(parent(name, nil)), "\n"), text) })
		}
		fmt.Fprintln(&out, kit.Events(parent(name, nil)), kit.Get(parent(name, nil)).Unstructured().Object)
	}
	eventually(t, "the child has what is in the Secret", func() bool {
		copied := kit.Get(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "good"}})
		if copied == nil {
			return false
		}
		value, _ := copied.Field("data", "copy")
		return value == base64.StdEncoding.EncodeToString([]byte(canary+"2"))
	})
	return out.String()
}

// Nothing that a process puts out has a value of a Secret that a parent refers to.
func TestRelated_NoValueInTheOutputOfAProcess(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			kit := bystander(t, "read-output-by-"+format)
			createTroubles(kit)
			name := readsSecrets + format
			// The lowest level is the highest verbosity of client-go, at which it logs bodies.
			common := []string{"--kubeconfig=" + cluster.Kubeconfig(), "--namespace=" + kit.Namespace, "--log-format=" + format, "--log-level=debug-8"}
			p, _, address := startServing(t, name, func(_, both string) []string {
				return append(slices.Clone(common), "--metrics-bind-address="+both, "--health-probe-bind-address="+both)
			})
			noCanary(t, "Events and status", told(t, kit))
			for _, path := range []string{"/metrics", "/readyz", "/readyz?verbose"} {
				answer := get(t, "http://"+address+path)
				require.NotEmpty(t, answer, path)
				noCanary(t, path, answer)
			}
			require.Contains(t, get(t, "http://"+address+"/metrics"), `roperator_related_objects`)
			p.Signal(syscall.SIGTERM)
			p.Exit()
			kit.Update(secret("shared", "3")) // which the next build would copy
			for _, output := range []string{"text", "json"} {
				args := append(append([]string{"plan"}, common...), "--output="+output)
				plan := start(t, name, args...)
				for plan.Exit(); strings.Contains(plan.Said(), unreachable); plan.Exit() {
					plan = start(t, name, args...)
				}
				require.Contains(t, plan.Said(), "data.copy", "the plan tells of it")
				noCanary(t, "plan", plan.Said())
			}
			said := p.Said()
			for _, want := range []string{"handler panicked", "stack", "there is trouble", "ConflictLoop", "DEBUG+3", "Relate"} {
				require.True(t, strings.Contains(said, want), "%q isn't logged: nothing was looked for", want) //nolint:testifylint // the log is long
			}
			noCanary(t, "log", said)
		})
	}
}

// Nor have its spans, what testkit.Record writes, and the changes of runner.Plan.
func TestRelated_NoValueInSpansAndRecordings(t *testing.T) {
	t.Parallel()
	var recording bytes.Buffer
	var recorded sync.Mutex
	l := &listener{registry: prometheus.NewRegistry()}
	logger := slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.Level(-8)}))
	h := testkit.Record(lockedWriter{&recorded, &recording}, troubledReader())
	kit := testkit.NewWithOptions(t, cluster, reading("reads-spans"), h, testkit.KitOptions{
		Runner: runner.Options{Logger: logger, Metrics: l.registry, TracerProvider: l},
	})
	createTroubles(kit)
	events := told(t, kit)
	heard := l.heard()
	kit.Stop()
	kit.Update(secret("shared", "3"))
	planning := reading("reads-spans")
	planning.Namespaces = []string{kit.Namespace}
	changes, err := runner.Plan(t.Context(), planning, h, runner.Options{RESTConfig: cluster.RESTConfig(), Logger: logger})
	require.Error(t, err)
	recorded.Lock()
	defer recorded.Unlock()
	said := fmt.Sprintln(heard, l.heard(), events, changes, err, recording.String())
	for _, want := range []string{"span", "span error", `"shared"`, "data.copy", "roperator_related_objects"} {
		require.True(t, strings.Contains(said, want), "%q isn't said: nothing was looked for", want) //nolint:testifylint // it is long
	}
	noCanary(t, "all that is told", said)
}
