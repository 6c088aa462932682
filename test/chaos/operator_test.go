package chaos

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

const (
	operatorName = "chaos"
	finalizer    = "roperator.com/chaos"
	namespace    = "default" // of parents and lease

	leaseDuration = 6 * time.Second
	renewDeadline = 4 * time.Second
	retryPeriod   = time.Second
)

// What makes the test's binary a replica, and tells it what it needs to know.
const (
	identityVariable = "CHAOS_IDENTITY"
	hostVariable     = "CHAOS_HOST"
	tokenVariable    = "CHAOS_TOKEN"
	recordVariable   = "CHAOS_RECORD"
)

func parentType() resource.Type {
	return resource.Type{APIVersion: "chaos.roperator.com/v1", Kind: "Parent"}
}

// beReplica is the main function of a replica.
func beReplica(identity string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	record, err := os.OpenFile(os.Getenv(recordVariable), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		log.Error("no record", "error", err)
		return 1
	}
	defer record.Close()
	rc := &rest.Config{
		Host: os.Getenv(hostVariable), BearerToken: os.Getenv(tokenVariable), UserAgent: "chaos",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return &stamp{identity: identity, next: next} })
	w := &worker{record: record}
	w.mu.asked = map[types.UID]bool{}
	err = runner.Run(ctx, config.Operator{
		Name:   operatorName,
		Parent: parentType(),
		Children: []config.Child{
			{Type: k8s.ConfigMap, Strategy: config.Replace},
			{Type: k8s.Secret, Strategy: config.Recreate},
			{Type: k8s.Service, Strategy: config.Apply},
		},
		MaxErrorBackoff: 2 * time.Second,
	}, w, runner.Options{
		RESTConfig: rc, Logger: log, ShutdownTimeout: 5 * time.Second,
		LeaderElection: &runner.LeaderElection{
			Namespace: namespace, Name: operatorName, Identity: identity,
			LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		},
	})
	if err != nil {
		log.Error("replica failed", "error", err)
		return 1
	}
	return 0
}

// A stamp writes who sent a request, and when, where the audit log shows it.
type stamp struct {
	identity string
	next     http.RoundTripper
}

// RoundTrip is called concurrently.
func (s *stamp) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", fmt.Sprintf("%s%s %d", agentPrefix, s.identity, time.Now().UnixNano()))
	return s.next.RoundTrip(req)
}

// WrappedRoundTripper is how client-go finds the connections below.
func (s *stamp) WrappedRoundTripper() http.RoundTripper { return s.next }

const agentPrefix = "replica/"

// A worker is the handler.
type worker struct {
	record *os.File
	mu     struct {
		sync.Mutex
		asked map[types.UID]bool // to finalize, by this process
	}
}

// Sync is handler.Handler's.
func (w *worker) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	name := req.Parent.Name()
	value, port, err := specOf(req.Parent)
	if err != nil {
		return nil, err
	}
	labels := map[string]any{"app": name}
	meta := func(name string) map[string]any { return map[string]any{"name": name, "labels": labels} }
	encoded := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:%d", value, port))
	return &handler.SyncResponse{
		Status: map[string]any{"value": value, "children": req.Children.Len()},
		Children: []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name + "-config"), "data": map[string]any{"value": value, value: "set"}},
			// Another name with another value, so that what is left behind shows.
			map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta(name + "-" + value), "data": map[string]any{"key": encoded}},
			map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": meta(name), "spec": map[string]any{
				"selector": map[string]any{"app": name, "value": value},
				"ports":    []any{map[string]any{"name": "main", "port": port}},
			}},
		},
	}, nil
}

func specOf(parent *resource.Resource) (value string, port int64, err error) {
	v, _ := parent.Field("spec", "value")
	p, _ := parent.Field("spec", "port")
	value, isText := v.(string)
	port, isNumber := p.(int64)
	if !isText || !isNumber {
		return "", 0, handler.Permanent(errors.New("spec.value and spec.port are missing"))
	}
	return value, port, nil
}

// Finalize is handler.Handler's. It notes what it does in a file before it
// returns; of some parents, only at the second call.
func (w *worker) Finalize(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	uid := req.Parent.UID()
	hash := fnv.New32()
	_, _ = hash.Write([]byte(uid))
	w.mu.Lock()
	again := w.mu.asked[uid]
	w.mu.asked[uid] = true
	w.mu.Unlock()
	switch {
	case again:
	case hash.Sum32()%8 == 0:
		return nil, errors.New("not yet")
	case hash.Sum32()%8 == 1:
		return &handler.FinalizeResponse{Status: map[string]any{"finalizing": true}, Retry: 300 * time.Millisecond}, nil
	}
	if _, err := fmt.Fprintf(w.record, "%s %d\n", uid, time.Now().UnixNano()); err != nil {
		return nil, err
	}
	return &handler.FinalizeResponse{Finalized: true}, nil
}
