package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
)

// A related type had no namespaces, and is installed anew with some. Whoever may write a parent mustn't read what is in
// other namespaces then, not for a moment, and is shown what is in its own.
func TestRelated_TypeGetsNamespaces(t *testing.T) {
	anew := func(server *fakeapi.Server, gap time.Duration) {
		server.Withdraw(widgetType())
		rig.Elapse(gap)
		server.Serve(fakeapi.Custom(widgetType(), "widgets"))
		server.Compact() // there is no history of what is served anew
		for _, namespace := range []string{"ns", "other"} {
			_, err := server.Create(map[string]any{
				"apiVersion": widgetType().APIVersion, "kind": widgetType().Kind,
				"metadata": map[string]any{"namespace": namespace, "name": "new", "labels": map[string]any{"a": "b"}},
			})
			require.NoError(t, err)
		}
	}
	ways := map[string]func(server *fakeapi.Server){
		"in an outage": func(server *fakeapi.Server) {
			server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error { return errors.New("no route to host") }})
			server.BreakWatches()
			rig.Elapse(30 * time.Second)
			anew(server, 0)
			rig.Elapse(time.Minute)
			server.SetHooks(fakeapi.Hooks{})
		},
	}
	for _, gap := range []time.Duration{0, 100 * time.Millisecond, 900 * time.Millisecond, 2 * time.Second, 20 * time.Second} {
		ways[fmt.Sprint("away for ", gap)] = func(server *fakeapi.Server) { anew(server, gap) }
	}
	for name, ref := range map[string]handler.Ref{"all": {Type: widgetType()}, "selector": {Type: widgetType(), Selector: "a=b"}, "name": {Type: widgetType(), Name: "new"}} {
		for way, do := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					before := fakeapi.Custom(widgetType(), "widgets")
					before.ClusterScoped = true
					server, cfg := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), before), rig.Config()
					cfg.Related = []config.Related{{Type: widgetType()}}
					var mu sync.Mutex
					seen := map[string]bool{}
					r := rig.Start(t, server, cfg, handler.Funcs{
						RelateFunc: func(*resource.Resource) ([]handler.Ref, error) { return []handler.Ref{ref}, nil },
						SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
							mu.Lock()
							defer mu.Unlock()
							for res := range req.Related.All() {
								seen[object.KeyText(res.Key())] = true
							}
							return &handler.SyncResponse{}, nil
						},
					})
					r.Create("a", "1")
					rig.Elapse(time.Second)
					do(server)
					rig.Elapse(time.Hour)
					r.Stop()
					require.Equal(t, map[string]bool{"ns/new": true}, seen)
				})
			})
		}
	}
}
