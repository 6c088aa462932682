package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/view"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// throughWindow starts an operator, and returns a window on it.
func throughWindow(t *testing.T, server *fakeapi.Server, h handler.Handler) (*rig.Rig, *manager.Window) {
	t.Helper()
	r := rig.StartWith(t, server, rig.Config(), h, manager.Options{RESTConfig: server.RESTConfig(), KeepJournal: true})
	w, err := r.Manager.Window()
	require.NoError(t, err)
	return r, w
}

func TestWindow_Mistakes(t *testing.T) {
	page := func(*manager.Window) manager.WindowPage { return nil }
	for name, tc := range map[string]struct {
		opts manager.Options
		want string
	}{
		"NoPort":  {manager.Options{WindowAddress: "8082", NewWindow: page}, "WindowAddress: address 8082: missing port in address; it is like :8082"},
		"Metrics": {manager.Options{WindowAddress: ":1", MetricsAddress: ":1", NewWindow: page}, "WindowAddress: :1 is the address of metrics or health"},
		"Health":  {manager.Options{WindowAddress: ":1", HealthAddress: ":1", NewWindow: page}, "WindowAddress: :1 is the address of metrics or health"},
		"NoPage":  {manager.Options{WindowAddress: ":1"}, "NewWindow isn't"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.opts.RESTConfig = rig.Server().RESTConfig()
			_, err := manager.New(tc.opts, manager.Spec{Config: rig.Config(), Handler: handler.SyncFunc(rig.Copier)})
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// TestWindow_ReadsOnly: whatever is looked at, the cluster isn't changed, and the running operator isn't
// disturbed.
func TestWindow_ReadsOnly(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var passing, plans int
		h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			mu.Lock()
			defer mu.Unlock()
			if handler.IsPlan(ctx) {
				plans++
			} else {
				passing++
			}
			return rig.Copier(ctx, req)
		})
		r, w := throughWindow(t, rig.Server(), h)
		r.Create("one", "v")
		r.Create("two", "v")
		rig.Elapse(time.Minute)
		passes, calls := r.Passes(), passing
		var wrote []string
		r.Server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Writes() && !req.DryRun {
				wrote = append(wrote, fmt.Sprint(req.Verb, " ", req.Type, " ", req.Key))
			}
			return nil
		}})
		overview, ok := w.Overview("op")
		require.True(t, ok)
		require.Len(t, overview.Parents, 2)
		require.Equal(t, 2, overview.Figures.Parents)
		require.True(t, overview.Figures.Leading)
		require.True(t, overview.Figures.Synced)
		require.Len(t, overview.Figures.Watches, 2)
		family, ok := w.Family("op", rig.Key("one"))
		require.True(t, ok)
		explanation, err := w.Explain(t.Context(), "op", rig.Key("one"), family.Process)
		require.NoError(t, err)
		require.Equal(t, explain.Settled, explanation.Parent.State, explanation.Parent.Reason)
		require.Len(t, explanation.Children, 1)
		var planned []view.Planned
		require.NoError(t, w.Plan(t.Context(), "op", func(p view.Planned, parents int) {
			require.Equal(t, 2, parents)
			planned = append(planned, p)
		}))
		require.Len(t, planned, 2)
		var file bytes.Buffer
		require.NoError(t, w.Record(t.Context(), "op", rig.Key("one"), &file))
		require.Equal(t, 2, strings.Count(file.String(), "\n"))
		rig.Elapse(time.Second)
		require.Empty(t, wrote)
		require.Equal(t, passes, r.Passes(), "no pass was made")
		require.Equal(t, calls, passing, "and no call as in a pass")
		require.GreaterOrEqual(t, plans, 4)
		r.Stop()
		_, ok = w.Overview("nobody")
		require.False(t, ok)
	})
}

// TestWindow_PlanSaysWhatWouldChange by dry runs, and which parents would fail.
func TestWindow_PlanSaysWhatWouldChange(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			resp, err := rig.Copier(ctx, req)
			if handler.IsPlan(ctx) && req.Parent.Name() == "bad" {
				return nil, errors.New("no such plan")
			}
			if handler.IsPlan(ctx) {
				resp.Children = []any{rig.Copied(req.Parent.Name(), "another")}
			}
			return resp, err
		})
		r, w := throughWindow(t, rig.Server(), h)
		r.Create("bad", "v")
		r.Create("good", "v")
		rig.Elapse(time.Minute)
		found := map[string]view.Planned{}
		require.NoError(t, w.Plan(t.Context(), "op", func(p view.Planned, _ int) { found[p.Name] = p }))
		require.Contains(t, found["bad"].Error, "no such plan")
		require.Len(t, found["good"].Changes, 1)
		require.Equal(t, "update", found["good"].Changes[0].Verb)
		require.Equal(t, "v", valueOf(r, "good"))
		r.Stop()
	})
}

// TestWindow_HandlerThatNeverReturns: nobody waits for it for long, and only so many are left behind.
func TestWindow_HandlerThatNeverReturns(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		goOn := make(chan struct{})
		h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			if handler.IsPlan(ctx) {
				<-goOn
			}
			return rig.Copier(ctx, req)
		})
		r, w := throughWindow(t, rig.Server(), h)
		r.Create("one", "v")
		rig.Elapse(time.Second)
		for range manager.MaxRehearsals {
			begin := time.Now()
			_, err := w.Explain(t.Context(), "op", rig.Key("one"), explain.Process{})
			require.ErrorContains(t, err, "no answer within 20s: took too long")
			require.Equal(t, manager.ExplainTimeout, time.Since(begin))
		}
		_, err := w.Explain(t.Context(), "op", rig.Key("one"), explain.Process{})
		require.ErrorContains(t, err, "4 looks at parents are under way")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		close(goOn)
		rig.Elapse(time.Second)
		_, err = w.Explain(ctx, "op", rig.Key("one"), explain.Process{})
		require.ErrorIs(t, err, context.Canceled)
		_, err = w.Explain(t.Context(), "op", rig.Key("one"), explain.Process{})
		require.NoError(t, err)
		r.Stop()
	})
}

// TestWindow_RecordsWhatHappens: once somebody looks, the calls of passes are recorded.
func TestWindow_RecordsWhatHappens(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		h := handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Retry: time.Hour}, nil
		}}
		r, w := throughWindow(t, rig.Server(), h)
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		record := func() (string, error) {
			var file bytes.Buffer
			err := w.Record(t.Context(), "op", rig.Key("one"), &file)
			return file.String(), err
		}
		release := w.Tap("op", rig.Key("one"))
		r.SetSpec("one", "v2")
		rig.Elapse(time.Second)
		text, err := record()
		require.NoError(t, err)
		require.Contains(t, text, `"value":"v2"`)
		require.Greater(t, strings.Count(text, `"call":"sync"`), 1)
		release()
		text, err = record()
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(text, `"call":"sync"`), "what was kept is forgotten, and the handler is called for the recording")
		require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
		rig.Elapse(time.Second)
		_, err = record()
		require.ErrorContains(t, err, "Parent ns/one: is being deleted, and no call of Finalize has been seen yet")
		var none bytes.Buffer
		require.EqualError(t, w.Record(t.Context(), "op", rig.Key("none"), &none), "Parent ns/none: not found")
		r.Stop()
	})
}

// TestWindow_PanicOfTheHandler is an error of what was asked.
func TestWindow_PanicOfTheHandler(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			if handler.IsPlan(ctx) {
				panic("oh")
			}
			return rig.Copier(ctx, req)
		})
		r, w := throughWindow(t, rig.Server(), h)
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		explanation, err := w.Explain(t.Context(), "op", rig.Key("one"), explain.Process{})
		require.NoError(t, err)
		require.Contains(t, explanation.Parent.Error, "panic: oh")
		var file bytes.Buffer
		require.ErrorContains(t, w.Record(t.Context(), "op", rig.Key("one"), &file), "panic: oh")
		r.Stop()
	})
}

// A hostileError panics in each method, with a value that panics when it is printed.
type hostileError struct{}

func (hostileError) Error() string                { panic(hostileError{}) }
func (hostileError) Unwrap() error                { panic(hostileError{}) }
func (hostileError) MarshalJSON() ([]byte, error) { panic(hostileError{}) }

// TestWindow_Hostile: an error or a value of the handler that panics ends no process. What was asked says so, of the one parent.
func TestWindow_Hostile(t *testing.T) {
	const printed = "a manager_test.hostileError that panics when it is printed"
	for name, tc := range map[string]struct {
		reason    string
		call      func() (*handler.SyncResponse, error)
		want      string
		recording string // the error of a recording, empty: there is one
	}{
		"Error": {
			reason: "the recording has the text of the error",
			call:   func() (*handler.SyncResponse, error) { return nil, hostileError{} },
			want:   "handler: Sync: returned a manager_test.hostileError whose method Error panics: " + printed,
		},
		"Panic": {
			reason:    "there is nothing to record",
			call:      func() (*handler.SyncResponse, error) { panic(hostileError{}) },
			want:      "handler: Sync: panic: " + printed,
			recording: "panic: " + printed + "; the log has its stack",
		},
		"Status": {
			reason: "the status is encoded outside of the call",
			call: func() (*handler.SyncResponse, error) {
				return &handler.SyncResponse{Status: hostileError{}, KeepChildren: true}, nil
			},
			want:      "invalid response: Parent ns/one: status: panic: " + printed,
			recording: "Parent ns/one: sync: a value of the response panics when it is encoded",
		},
		"Child": {
			reason: "so is a child",
			call: func() (*handler.SyncResponse, error) {
				return &handler.SyncResponse{Children: []any{hostileError{}}}, nil
			},
			want:      "invalid response: child 0: manager_test.hostileError: encode: panic: " + printed,
			recording: "Parent ns/one: sync: a value of the response panics when it is encoded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					if handler.IsPlan(ctx) && req.Parent.Name() == "one" {
						return tc.call()
					}
					return rig.Copier(ctx, req)
				})
				r, w := throughWindow(t, rig.Server(), h)
				r.Create("one", "v1")
				r.Create("two", "v1")
				rig.Elapse(time.Second)
				explanation, err := w.Explain(t.Context(), "op", rig.Key("one"), explain.Process{})
				require.NoError(t, err)
				require.Contains(t, explanation.Parent.Error, tc.want, tc.reason)
				planned := map[string]string{}
				require.NoError(t, w.Plan(t.Context(), "op", func(p view.Planned, _ int) { planned[p.Name] = p.Error }))
				require.Equal(t, map[string]string{"one": "Parent ns/one: " + tc.want, "two": ""}, planned, tc.reason)
				err = w.Record(t.Context(), "op", rig.Key("one"), &bytes.Buffer{})
				if tc.recording == "" {
					require.NoError(t, err, tc.reason)
				} else {
					require.EqualError(t, err, tc.recording, tc.reason)
				}
				r.Stop()
			})
		})
	}
}

// TestWindow_Served: the page is served where it is to be, and ends with the operator.
func TestWindow_Served(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, host, scheme string
		protected            bool
	}{
		"Loopback": {"nobody else can reach it", "127.0.0.1", "http", false},
		"Others":   {"a token is needed, by TLS", "0.0.0.0", "https", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := &fakePage{closed: make(chan struct{})}
			address := windowOf(t, tc.host, page)
			code, _, body := fetch(t, tc.scheme+"://"+address+"/window/overview", "")
			if tc.protected {
				require.Equal(t, http.StatusUnauthorized, code, tc.reason)
				code, _, body = fetch(t, tc.scheme+"://"+address+"/window/overview", "t")
			}
			require.Equal(t, http.StatusOK, code)
			require.Equal(t, "data", body)
			code, _, body = fetch(t, tc.scheme+"://"+address+"/", "")
			require.Equal(t, http.StatusOK, code)
			require.Equal(t, "page", body)
			require.Equal(t, !tc.protected, page.window.Loopback)
		})
	}
}

// valueOf returns what the child of a parent holds.
func valueOf(r *rig.Rig, name string) any {
	value, _ := r.Get(k8s.ConfigMap, name).Field("data", "value")
	return value
}

// A fakePage is the page of a window that shows nothing.
type fakePage struct {
	window *manager.Window
	closed chan struct{}
}

func (p *fakePage) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	if !strings.HasPrefix(req.URL.Path, "/window/") {
		_, _ = rw.Write([]byte("page"))
		return
	}
	var data http.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("data")) })
	if p.window.Protect != nil {
		data = p.window.Protect(data)
	}
	data.ServeHTTP(rw, req)
}

func (p *fakePage) Close() { close(p.closed) }

// windowOf runs an operator whose window has this page until the test ends, and returns an address at
// which it can be reached. The page must be closed then.
func windowOf(t *testing.T, host string, page *fakePage) string {
	t.Helper()
	rc := rig.Server().RESTConfig()
	rc.Transport = allowing{rc.Transport}
	_, port, err := net.SplitHostPort(plane.FreeAddress(t))
	require.NoError(t, err)
	m, err := manager.New(manager.Options{
		RESTConfig: rc, Logger: slog.New(slog.DiscardHandler), WindowAddress: net.JoinHostPort(host, port),
		NewWindow: func(w *manager.Window) manager.WindowPage {
			page.window = w
			return page
		},
	}, manager.Spec{Config: rig.Config(), Handler: handler.SyncFunc(rig.Copier)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }() // until cancel
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		<-page.closed
	})
	require.Eventually(t, func() bool { return m.Ready() == nil }, time.Minute, 10*time.Millisecond)
	return net.JoinHostPort("127.0.0.1", port)
}
