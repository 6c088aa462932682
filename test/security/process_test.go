package security

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/runner"
)

// fewDescriptors is the name of an operator that may have so many descriptors only.
const (
	fewDescriptors = "few-descriptors"
	descriptors    = 100
)

// canary is in every value of a Secret here, and nowhere else.
const canary = "Kanarienvogel"

func secret(name, value string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name},
		"data":       map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(canary + value))},
		"stringData": map[string]any{"token": canary + value},
	}
}

// beOperator is the main function of an operator's process.
func beOperator() {
	name := os.Getenv(operatorproc.Variable)
	if name == fewDescriptors {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: descriptors, Max: descriptors}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(4)
		}
	}
	if strings.HasPrefix(name, readsSecrets) {
		runner.Main(reading(name), troubledReader())
		return
	}
	runner.Main(operator(name), handler.SyncFunc(trouble))
}

var ticks atomic.Int64

// trouble answers as the parent's name says, with a Secret at hand.
func trouble(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	name := req.Parent.Name()
	it := secret(name, "1")
	switch name {
	case "panics":
		list, ok := it["data"].([]any)
		it["data"] = list[0] // the Secret is in scope, and not what the panic says
		it["ok"] = ok
	case "fails":
		return nil, fmt.Errorf("there is trouble with %v", req.Children.Len())
	case "chatty":
		for range 200 {
			slog.Info("there is much to say", "what", strings.Repeat("x", 10_000))
		}
	case "permanent":
		return nil, handler.Permanent(errors.New("there is trouble for good"))
	case "loops":
		it = secret(name, fmt.Sprint(ticks.Add(1)))
	case "key":
		it["stringData"] = map[string]any{"not a key!": canary}
	case "base64":
		it["data"] = map[string]any{"password": canary + "!"}
	case "label":
		it["metadata"] = map[string]any{"name": name, "labels": map[string]any{"roperator.com/parent-uid": "other"}}
	case "type":
		it["type"] = "kubernetes.io/tls"
	case "unknown":
		it["unknownField"] = canary
	}
	return &handler.SyncResponse{Status: map[string]any{"secrets": req.Children.Len()}, Children: []any{it}}, nil
}

func start(t *testing.T, name string, args ...string) *operatorproc.Process {
	t.Helper()
	return operatorproc.Command{Name: name, Args: args}.Start(t)
}

// unreachable is what a process says that has ended because the API server
// didn't answer in time; it is started again, as a Deployment would.
const unreachable = "can't be reached"

// startWorking starts an operator, and returns when it has begun to work.
func startWorking(t *testing.T, name string, args ...string) *operatorproc.Process {
	t.Helper()
	for {
		p := start(t, name, args...)
		eventually(t, "it has started, or ended", func() bool { return p.Ended() || strings.Contains(p.Said(), "started") })
		if !p.Ended() || !strings.Contains(p.Said(), unreachable) {
			return p
		}
	}
}

// startServing starts an operator that serves its metrics and its health at the
// addresses that it returns, which nobody listened at a moment ago, and returns
// when it has begun to work. It tries others if somebody else was faster.
func startServing(t *testing.T, name string, args func(metrics, health string) []string) (p *operatorproc.Process, metrics, health string) {
	t.Helper()
	for range 10 {
		metrics, health = plane.FreeAddress(t), plane.FreeAddress(t)
		p = startWorking(t, name, args(metrics, health)...)
		if !p.Ended() || !strings.Contains(p.Said(), "address already in use") {
			break
		}
	}
	return p, metrics, health
}

// get returns what an address answers, "" if it doesn't.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

// noCanary requires that no value of a Secret is in a text, however spelled.
func noCanary(t *testing.T, what, text string) {
	t.Helper()
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	for _, form := range []string{canary, encoded[:len(encoded)-4], strings.ToLower(canary), fmt.Sprintf("%x", canary)} {
		at := strings.Index(text, form)
		if at >= 0 {
			require.Fail(t, "a value of a Secret got out", "%s: …%s…", what, text[max(0, at-300):min(len(text), at+100)])
		}
	}
}

func TestNoValueOfASecretInTheOutputOfAProcess(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			kit := bystander(t, "output-by-"+format)
			name := "output-" + format
			troubles := []string{"good", "panics", "fails", "permanent", "loops", "key", "base64", "label", "type", "unknown", "taken"}
			foreign := secret("taken", "theirs")
			kit.Create(foreign)
			for _, each := range troubles {
				kit.Create(parent(each, map[string]any{}))
			}
			// The lowest level is the highest verbosity of client-go, at which
			// it logs bodies.
			common := []string{"--kubeconfig=" + cluster.Kubeconfig(), "--namespace=" + kit.Namespace, "--log-format=" + format, "--log-level=debug-8"}
			p, _, address := startServing(t, name, func(_, both string) []string {
				return append(slices.Clone(common), "--metrics-bind-address="+both, "--health-probe-bind-address="+both)
			})
			for _, each := range troubles {
				text := map[string]string{"good": "", "loops": "ConflictLoop", "unknown": ""}
				if want, listed := text[each]; listed && want == "" {
					eventually(t, each, func() bool { return kit.Get(secret(each, "")) != nil })
					continue
				}
				eventually(t, "an Event of "+each, func() bool {
					return strings.Contains(strings.Join(kit.Events(parent(each, nil)), "\n"), "Warning")
				})
			}
			eventually(t, "a loop", func() bool {
				return strings.Contains(strings.Join(kit.Events(parent("loops", nil)), "\n"), "ConflictLoop")
			})
			var events strings.Builder
			for _, each := range troubles {
				fmt.Fprintln(&events, kit.Events(parent(each, nil)), kit.Get(parent(each, nil)).Unstructured().Object)
			}
			noCanary(t, "Events and status", events.String())
			for _, path := range []string{"/metrics", "/healthz", "/readyz", "/readyz?verbose"} {
				answer := get(t, "http://"+address+path)
				require.NotEmpty(t, answer, path)
				noCanary(t, path, answer)
			}
			// What the next build would change.
			kit.Update(secret("good", "by hand"))
			for _, output := range []string{"text", "json"} {
				plan := start(t, name, append(append([]string{"plan"}, common...), "--output="+output)...)
				for plan.Exit(); strings.Contains(plan.Said(), unreachable); plan.Exit() {
					plan = start(t, name, append(append([]string{"plan"}, common...), "--output="+output)...)
				}
				require.Contains(t, plan.Said(), "loops", "the plan, or its log, tells of it")
				noCanary(t, "plan", plan.Said())
			}
			p.Signal(syscall.SIGTERM)
			p.Exit()
			said := p.Said()
			for _, want := range []string{"handler panicked", "stack", "there is trouble", "ConflictLoop", "already exists", "DEBUG+3"} {
				require.True(t, strings.Contains(said, want), "%q isn't logged: nothing was looked for", want) //nolint:testifylint // the log is long
			}
			noCanary(t, "log", said)
		})
	}
}
