package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/failable"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

// watched is for how long an operator is watched.
const watched = 2 * time.Hour

var (
	parentType = resource.Type{APIVersion: "alerts.example.com/v1", Kind: "App"}
	parentKey  = types.NamespacedName{Namespace: "shop", Name: "orders"}

	errCloud = errors.New("the cloud is asleep")
)

// observe runs an operator with one parent and returns what was scraped of it,
// and what the API server has of the parent in the end. begun is called once
// the operator has nothing to do.
func observe(t *testing.T, h handler.Handler, begun func(server *fakeapi.Server) error) (scrapes []scrape, parent *resource.Resource) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Custom(parentType, "apps"), fakeapi.ConfigMaps())
		_, err := server.Create(map[string]any{
			"apiVersion": parentType.APIVersion, "kind": parentType.Kind,
			"metadata": map[string]any{"namespace": parentKey.Namespace, "name": parentKey.Name},
		})
		require.NoError(t, err)
		metrics := prometheus.NewRegistry()
		r, err := runner.New(config.Operator{
			Name: "apps", Parent: parentType,
			Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
		}, h, runner.Options{RESTConfig: server.RESTConfig(), Metrics: metrics, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel() // of a test that failed
		ended := make(chan error, 1)
		go func() { ended <- r.Start(ctx) }()
		synctest.Wait()
		if begun != nil {
			require.NoError(t, begun(server))
		}
		for range int(watched/interval) + 1 {
			synctest.Wait()
			scrapes = append(scrapes, scrapeOf(t, metrics))
			<-time.After(interval)
		}
		cancel()
		require.NoError(t, <-ended)
		parent = server.Get(parentType, parentKey)
	})
	return scrapes, parent
}

func deleteParent(server *fakeapi.Server) error { return server.Delete(parentType, parentKey) }

// createMore creates so many further parents.
func createMore(n int) func(server *fakeapi.Server) error {
	return func(server *fakeapi.Server) error {
		for i := range n {
			_, err := server.Create(map[string]any{
				"apiVersion": parentType.APIVersion, "kind": parentType.Kind,
				"metadata": map[string]any{"namespace": parentKey.Namespace, "name": fmt.Sprint("more-", i)},
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// answers is a handler's function that returns the same at each call.
func answers(response *handler.SyncResponse, err error) func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
	return func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) { return response, err }
}

// tells is an ErrorFunc that puts the error into the status.
func tells(resync time.Duration) func(context.Context, *handler.SyncRequest, error) (any, time.Duration) {
	return func(_ context.Context, _ *handler.SyncRequest, err error) (any, time.Duration) {
		return message(err), resync
	}
}

func message(err error) map[string]any { return map[string]any{"message": err.Error()} }

// steps is a failable handler of which steps fail.
type steps struct {
	validate, sync, finalize error
}

func (s steps) Validate(context.Context, *handler.SyncRequest) (struct{}, error) {
	return struct{}{}, s.validate
}

func (s steps) SyncChildren(context.Context, struct{}, *handler.SyncRequest) ([]any, error) {
	return nil, s.sync
}

func (steps) DetermineStatus(_ context.Context, _ *handler.SyncRequest, result failable.Result[struct{}]) any {
	if err := result.Err(); err != nil {
		return message(err)
	}
	return map[string]any{"message": "all is well"}
}

func (s steps) Finalize(context.Context, *handler.SyncRequest) error { return s.finalize }

// recovering is a handler that fails for so long after its first call, and then
// is well.
func recovering(after time.Duration) handler.Handler {
	var first time.Time
	return handler.Funcs{
		SyncFunc: func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			if first.IsZero() {
				first = time.Now()
			}
			if time.Since(first) < after {
				return nil, errCloud
			}
			return &handler.SyncResponse{Status: map[string]any{"message": "all is well"}, Resync: time.Minute}, nil
		},
		ErrorFunc: tells(0),
	}
}

// sometimes is a handler of which every so many calls one fails.
func sometimes(every int) handler.Handler {
	calls := 0
	return handler.Funcs{
		SyncFunc: func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			if calls++; calls%every == 0 {
				return nil, errCloud
			}
			return &handler.SyncResponse{Resync: time.Minute}, nil
		},
		ErrorFunc: tells(0),
	}
}
