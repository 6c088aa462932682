package watch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/revision"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/engine/watch"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
)

// A mirror is a watcher of parents that runs in a synctest bubble, with the
// store that it fills.
type mirror struct {
	server  *fakeapi.Server
	store   *store.Store
	watcher *watch.Watcher

	mu struct {
		sync.Mutex
		changes []string // class, trigger and number of parents
		fatal   []error
		ended   []error // by a restore of etcd
	}
}

// newMirror returns a mirror that doesn't run yet.
func newMirror(t *testing.T) *mirror {
	t.Helper()
	m := &mirror{
		server: fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents")),
		store:  store.New(sample.ParentType(), sample.TrackingLabel),
	}
	link, err := client.Connect(m.server.RESTConfig(), sample.DiscardLog())
	require.NoError(t, err)
	link.Storage = revision.New(func(err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.mu.ended = append(m.mu.ended, err)
	})
	metrics := observe.NewMetrics()
	httpClient := link.As("op", metrics)
	c, err := client.New(link, httpClient, "op", metrics, sample.DiscardLog())
	require.NoError(t, err)
	finder, err := catalog.NewFinder(link.Config, httpClient)
	require.NoError(t, err)
	kinds, err := finder.DiscoverParent(t.Context(), config.Operator{Name: "op", Parent: sample.ParentType()})
	require.NoError(t, err)
	m.watcher = watch.New(watch.Config{
		Kind: kinds.Parent, Client: c, Store: m.store, Log: sample.DiscardLog(), Metrics: metrics.Of(sample.ParentType()),
		Changed: func(c store.Change, p schedule.Priority, why schedule.Trigger) {
			m.mu.Lock()
			defer m.mu.Unlock()
			class := map[schedule.Priority]string{schedule.Backlog: "backlog", schedule.Fresh: "fresh"}[p]
			m.mu.changes = append(m.mu.changes, fmt.Sprintf("%s: %s: %d", class, why, len(c.Parents)+len(c.Edited)))
		},
		Fatal: func(err error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.mu.fatal = append(m.mu.fatal, err)
		},
	})
	return m
}

// run runs the watcher during a test, which ends the watcher.
func (m *mirror) run(test func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.watcher.Run(ctx) })
	running.Go(func() {
		watch.FindRestore(ctx, m.watcher.Client.Storage(), func() []*watch.Watcher { return []*watch.Watcher{m.watcher} })
	})
	defer running.Wait()
	defer cancel()
	synctest.Wait()
	test()
}

func (m *mirror) create(t *testing.T, name string) *resource.Resource {
	t.Helper()
	created, err := m.server.Create(map[string]any{
		"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
		"metadata": map[string]any{"name": name, "namespace": "ns"},
	})
	require.NoError(t, err)
	return created
}

func (m *mirror) changes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mu.changes)
}

func (m *mirror) fatal() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mu.fatal)
}

func (m *mirror) restored() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mu.ended)
}

func TestWatcher_FillsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMirror(t)
		first := m.create(t, "first")
		require.ErrorContains(t, m.watcher.Ready(), "the first list hasn't arrived yet")
		require.Zero(t, m.watcher.HeardAt())
		m.run(func() {
			<-m.watcher.Synced()
			require.NoError(t, m.watcher.Ready())
			second := m.create(t, "second")
			_, err := m.server.Change(sample.ParentType(), first.Key(), func(o map[string]any) { o["spec"] = map[string]any{"value": "new"} })
			require.NoError(t, err)
			synctest.Wait()
			held, ok := m.store.Object(object.RefOf(first))
			require.True(t, ok)
			value, _ := held.Field("spec", "value")
			require.Equal(t, "new", value)
			require.ElementsMatch(t, []types.UID{first.UID(), second.UID()}, m.store.AllParents())
			require.NoError(t, m.watcher.Refresh(t.Context()))
			require.Equal(t, time.Now().UnixNano(), m.watcher.HeardAt().UnixNano())
		})
		require.Equal(t, []string{
			"backlog: list of Parent: 1", "fresh: Parent ns/second: 1", "fresh: Parent ns/first: 1", "fresh: list of Parent: 0",
		}, m.changes(), "the first list is the backlog, a refresh and events are fresh")
		require.Empty(t, m.fatal())
	})
}

func TestWatcher_Failures(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "parents"}, "", errors.New("no"))
	for name, tc := range map[string]struct {
		reason string
		err    error
		fatal  string // empty: the watcher retries
	}{
		"Forbidden":    {"only the cluster's admin can mend it", forbidden, "add the rule"},
		"Unauthorized": {"only another configuration can mend it", apierrors.NewUnauthorized("no"), "check the credentials"},
		"Broken":       {"the API server may come back", errors.New("connection refused"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMirror(t)
				m.server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error { return tc.err }})
				m.run(func() {
					require.Error(t, m.watcher.Ready())
					if tc.fatal != "" {
						require.ErrorContains(t, m.fatal()[0], tc.fatal, tc.reason)
						return
					}
					require.Empty(t, m.fatal(), tc.reason)
					m.server.SetHooks(fakeapi.Hooks{})
					<-m.watcher.Synced()
					synctest.Wait()
					require.NoError(t, m.watcher.Ready(), tc.reason)
				})
			})
		})
	}
}

// A watch that worked once isn't given up for credentials that have expired: they may
// be replaced at any time. It neither floods the API server nor waits for long.
func TestWatcher_OutlivesCredentials(t *testing.T) {
	for name, refusal := range map[string]error{
		"Unauthorized": apierrors.NewUnauthorized("the token has expired"),
		"Untrusted":    errors.New("x509: certificate signed by unknown authority"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMirror(t)
				m.run(func() {
					<-m.watcher.Synced()
					synctest.Wait()
					before := len(m.server.Requests())
					var mu sync.Mutex
					last, longest := time.Now(), time.Duration(0)
					m.server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error {
						mu.Lock()
						defer mu.Unlock()
						longest, last = max(longest, time.Since(last)), time.Now()
						return refusal
					}})
					m.server.BreakWatches()
					const expired = time.Hour
					<-time.After(expired)
					require.Error(t, m.watcher.Ready())
					attempts := int(expired / (15 * time.Second)) // at most; each is a few requests
					require.Less(t, len(m.server.Requests())-before, 3*attempts, "no flood of requests")
					mu.Lock()
					require.LessOrEqual(t, longest, 30*time.Second, "nor does it wait for long")
					mu.Unlock()

					m.create(t, "new")
					m.server.SetHooks(fakeapi.Hooks{})
					<-time.After(30 * time.Second)
					synctest.Wait()
					require.NoError(t, m.watcher.Ready(), "the watch is back")
					require.Len(t, m.store.AllParents(), 1)
					require.Empty(t, m.fatal())
				})
			})
		})
	}
}
