package reconcile_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

const (
	// raceTries is how many bubbles each test of a race has: one alone shows a race by chance.
	raceTries = 20
	// raceParents is how many parents are reconciled at once: the other goroutine is busy with them the longer.
	raceParents = 10
)

// TestLongPass_Races is for the race detector. Each reconciliation goes on at the very moment at which another
// goroutine reports that it takes long, or begins to.
func TestLongPass_Races(t *testing.T) {
	cases := map[string]struct {
		reason  string
		handler handler.Handler
		related bool
		long    string // the verb of the requests that take a minute
		level   slog.Level
		delete  bool // the parents are deleted after they were reconciled
	}{
		"FinalizerPatch": {
			reason:  "the response to the patch of the finalizers replaces the parent of the request",
			handler: handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: finalized},
			long:    "patch",
			delete:  true,
		},
		"Relate": {
			reason: "the related objects are added to the request",
			handler: handler.Funcs{SyncFunc: rig.Copier, RelateFunc: func(*resource.Resource) ([]handler.Ref, error) {
				pause(time.Minute)
				return nil, nil
			}},
			related: true,
		},
		"Debug": {
			reason: "both goroutines write the first line",
			handler: handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				pause(time.Minute)
				return rig.Copier(ctx, req)
			}),
			level: slog.LevelDebug,
		},
		"Create": {
			reason:  "children are written meanwhile",
			handler: handler.SyncFunc(rig.Copier),
			long:    "create",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for range raceTries {
				rig.Bubble(t, func(t *testing.T) {
					server := rig.Server()
					server.SetHooks(fakeapi.Hooks{After: func(r fakeapi.Request) error {
						if r.Verb == tc.long {
							pause(time.Minute)
						}
						return nil
					}})
					cfg := rig.Config()
					cfg.MaxConcurrentSyncs = raceParents
					if tc.related {
						cfg.Related = []config.Related{{Type: k8s.Secret}}
					}
					m, err := rig.NewOne(cfg, tc.handler, manager.Options{
						RESTConfig: server.RESTConfig(), KeepJournal: true, KeepHistory: true,
						Logger: slog.New(slog.NewTextHandler(&rig.Logs{}, &slog.HandlerOptions{Level: tc.level})),
					})
					require.NoError(t, err)
					for i := range raceParents {
						rig.CreateParent(t, server, fmt.Sprint("p-", i), "v")
					}
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- m.Start(ctx) }()
					rig.Elapse(3 * time.Minute)
					if tc.delete {
						for i := range raceParents {
							require.NoError(t, server.Delete(sample.ParentType(), rig.Key(fmt.Sprint("p-", i))))
						}
						rig.Elapse(3 * time.Minute)
					}
					require.Empty(t, m.Engine().AllErrors(), tc.reason)
					cancel()
					require.NoError(t, <-ended)
				})
			}
		})
	}
}

// finalized is a Finalize that has nothing to do.
func finalized(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	return &handler.FinalizeResponse{Finalized: true}, nil
}

// pause returns when d has passed in the bubble.
func pause(d time.Duration) { <-time.After(d) }
