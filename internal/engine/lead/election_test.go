package lead

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/transport"

	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
)

// newTestLease returns the lease of a replica on a server.
func newTestLease(t *testing.T, server *fakeapi.Server, identity string) *Lease {
	t.Helper()
	config := Config{Namespace: "ns", Identity: identity}.WithDefaults("op")
	lease, err := NewLease(config, server.RESTConfig(), &http.Client{Transport: server}, sample.DiscardLog())
	require.NoError(t, err)
	return lease
}

// untilStopped is work that ends with its context.
func untilStopped(ctx, _ context.Context) error { <-ctx.Done(); return nil }

func TestRun_TakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Leases())
		one, two := newTestLease(t, server, "one"), newTestLease(t, server, "two")
		start := func(l *Lease) (stop func() error) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- Run(ctx, nil, l, untilStopped) }()
			synctest.Wait()
			return func() error { cancel(); return <-ended }
		}
		require.False(t, one.Held(), "the election hasn't begun")
		stopOne := start(one)
		stopTwo := start(two)
		<-time.After(time.Minute)
		require.True(t, one.Held(), "the lease is renewed")
		require.False(t, two.Held())

		require.NoError(t, stopOne())
		require.False(t, one.Held(), "the lease is released")
		require.NoError(t, one.Lost(), "a released lease isn't lost")
		<-time.After(5 * time.Second)
		require.True(t, two.Held(), "the other replica takes over soon")
		require.NoError(t, stopTwo())
	})
}

func TestRun_LosesTheLease(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		lose   func(t *testing.T, server *fakeapi.Server)
		after  time.Duration // at most
		err    string
	}{
		"Not renewed": {
			reason: "another replica may lead after LeaseDuration",
			lose: func(_ *testing.T, server *fakeapi.Server) {
				server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error { return errors.New("cut off") }})
			},
			after: 10 * time.Second, err: "Lease ns/op: lost: it wasn't renewed for 10s",
		},
		"Taken": {
			reason: "the other process writes already",
			lose: func(t *testing.T, server *fakeapi.Server) {
				_, err := server.Change(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: "op"}, func(o map[string]any) {
					o["spec"].(map[string]any)["holderIdentity"] = "other"
				})
				require.NoError(t, err)
			},
			after: 2 * time.Second, err: "Lease ns/op: lost: other took it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := fakeapi.New(fakeapi.Leases())
				lease := newTestLease(t, server, "one")
				var cause error
				var took time.Duration
				err := Run(t.Context(), nil, lease, func(ctx, passes context.Context) error {
					tc.lose(t, server)
					begin := time.Now()
					<-passes.Done()
					took, cause = time.Since(begin), context.Cause(passes)
					<-ctx.Done()
					return nil
				})
				require.ErrorContains(t, err, tc.err, tc.reason)
				require.Equal(t, err, cause, "running passes learn why they must stop")
				require.LessOrEqual(t, took, tc.after, tc.reason)
				require.False(t, lease.Held())
				require.Equal(t, err, lease.Lost())
			})
		})
	}
}

func TestRun_Forbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Leases())
		server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "op", errors.New("no"))
		}})
		var fatal error
		err := Run(t.Context(), func(err error) { fatal = err }, newTestLease(t, server, "one"), func(context.Context, context.Context) error {
			t.Error("leads without a lease")
			return nil
		})
		require.NoError(t, err)
		require.ErrorContains(t, fatal, "Lease ns/op: get: leases \"op\" is forbidden")
	})
}

// A right that a waiting replica had, or may have, and that is gone for a moment doesn't end
// it. One that it was never given does.
func TestRun_RightsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		forbid func() func(verb string, at time.Duration) bool // whether a request of the replica is forbidden; the holder ends after a minute
		fatal  string
	}{
		"Waiting": {"it has read the Lease before, each time", func() func(string, time.Duration) bool {
			return func(_ string, at time.Duration) bool {
				return at > 10*time.Second && at < 20*time.Second || at > 30*time.Second && at < 40*time.Second
			}
		}, ""},
		"Taking": {"all rights are gone just when it would take the Lease", func() func(string, time.Duration) bool {
			var gone time.Duration
			return func(verb string, at time.Duration) bool {
				if verb == "update" && gone == 0 {
					gone = at
				}
				return gone > 0 && at < gone+10*time.Second
			}
		}, ""},
		"Never": {"it may read the Lease, but never take it", func() func(string, time.Duration) bool {
			return func(verb string, _ time.Duration) bool { return verb == "update" }
		}, `Lease ns/op: update: leases.coordination.k8s.io "op" is forbidden`},
		"From the start": {"there is nothing to wait for", func() func(string, time.Duration) bool {
			return func(_ string, at time.Duration) bool { return at < time.Second }
		}, `Lease ns/op: get: leases.coordination.k8s.io "op" is forbidden`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, forbid, start := fakeapi.New(fakeapi.Leases()), tc.forbid(), time.Now()
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				holder := make(chan error, 1)
				one := newTestLease(t, server, "one")
				go func() { holder <- Run(ctx, nil, one, untilStopped) }()
				synctest.Wait()
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.UserAgent == "two" && forbid(r.Verb, time.Since(start)) {
						return apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "op", errors.New("no"))
					}
					return nil
				}})
				httpClient := &http.Client{Transport: transport.NewUserAgentRoundTripper("two", server)}
				waiting, err := NewLease(Config{Namespace: "ns", Identity: "two"}.WithDefaults("op"), server.RESTConfig(), httpClient, sample.DiscardLog())
				require.NoError(t, err)
				var fatal error
				led := time.Duration(0)
				limited, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				err = Run(limited, func(err error) { fatal = err }, waiting, func(context.Context, context.Context) error {
					led = time.Since(start)
					return nil
				})
				require.NoError(t, err)
				if tc.fatal != "" {
					require.ErrorContains(t, fatal, tc.fatal, tc.reason)
					require.Less(t, time.Since(start), 70*time.Second)
				} else {
					require.NoError(t, fatal, tc.reason)
					require.Greater(t, led, time.Minute)
					require.Less(t, led, 80*time.Second)
				}
				stop()
				require.NoError(t, <-holder)
			})
		})
	}
}

func TestRun_WithoutALease(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := Run(ctx, nil, nil, func(ctx, passes context.Context) error {
		cancel()
		require.Error(t, ctx.Err())
		require.NoError(t, passes.Err(), "running passes may end by themselves")
		return nil
	})
	require.NoError(t, err)
}

// Another replica counts LeaseDuration from a moment at which the request may just
// have arrived. So this process must count from the moment at which the request began.
func TestLease_CountsFromWhenItsRequestBegan(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		verb   string // of the request whose answer is late, and after which none is served
	}{
		"Create": {"the Lease that is taken first", "create"},
		"Update": {"a renewal", "update"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const late = 4 * time.Second
				server := fakeapi.New(fakeapi.Leases())
				var began time.Time
				server.SetHooks(fakeapi.Hooks{
					Before: func(r fakeapi.Request) error {
						if !began.IsZero() {
							return errors.New("cut off")
						}
						if r.Verb == tc.verb {
							began = time.Now()
						}
						return nil
					},
					After: func(r fakeapi.Request) error {
						if r.Verb == tc.verb {
							<-time.After(late)
						}
						return nil
					},
				})
				lease := newTestLease(t, server, "one")
				err := Run(t.Context(), nil, lease, func(ctx, _ context.Context) error {
					<-ctx.Done()
					require.Equal(t, 10*time.Second, time.Since(began), tc.reason)
					require.False(t, lease.Held())
					return nil
				})
				require.ErrorContains(t, err, "it wasn't renewed for 10s", tc.reason)
			})
		})
	}
}

// Work that couldn't be ended may still do something, but nothing that needs the lease. So the
// lease is released for others.
func TestRun_WorkThatStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Leases())
		lease := newTestLease(t, server, "one")
		unfinished := errors.New("still runs")
		require.ErrorIs(t, Run(t.Context(), nil, lease, func(context.Context, context.Context) error { return unfinished }), unfinished)
		require.False(t, lease.Held(), "nothing more is written")
		require.EqualError(t, lease.Lost(), "Lease ns/op: given up: still runs")
		holder, _ := server.Get(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: "op"}).Field("spec", "holderIdentity")
		require.Empty(t, holder)
		require.ErrorIs(t, Run(t.Context(), nil, nil, func(context.Context, context.Context) error { return unfinished }), unfinished)
	})
}
