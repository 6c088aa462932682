package lead

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/testing/fakeapi"
)

// A runningLease is a process that takes part in the election.
type runningLease struct {
	*Lease
	stop  context.CancelFunc
	ended chan error
	fatal chan error
}

// startLease starts work that ends after slow, once it is told to.
func startLease(t *testing.T, server *fakeapi.Server, identity, takeOver string, slow time.Duration) *runningLease {
	t.Helper()
	r := &runningLease{Lease: newTestLease(t, server, identity), ended: make(chan error, 1), fatal: make(chan error, 1)}
	if takeOver != "" {
		r.TakeOver(takeOver)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() {
		r.ended <- Run(ctx, func(err error) { r.fatal <- err }, r.Lease, func(ctx, _ context.Context) error {
			<-ctx.Done()
			if slow > 0 {
				<-time.After(slow)
			}
			return nil
		})
	}()
	synctest.Wait()
	return r
}

func leaseOf(server *fakeapi.Server) (holder string, annotations map[string]string) {
	lease := server.Get(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: "op"})
	value, _ := lease.Field("spec", "holderIdentity")
	holder, _ = value.(string)
	return holder, lease.Annotations()
}

// onlyOne lets time pass until the condition holds, and finds never more than one holder.
func onlyOne(t *testing.T, limit time.Duration, all []*runningLease, until func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !until() {
		require.Less(t, time.Since(begin), limit, "it takes too long")
		<-time.After(10 * time.Millisecond)
		held := 0
		for _, l := range all {
			if l.Held() {
				held++
			}
		}
		require.LessOrEqual(t, held, 1, "two may write")
	}
	return time.Since(begin)
}

func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Leases())
		one, two := startLease(t, server, "one", "", 3*time.Second), startLease(t, server, "two", "", 0)
		require.True(t, one.Held())
		<-time.After(time.Minute)
		dev := startLease(t, server, "dev", "alice@laptop", 0)
		all := []*runningLease{one, two, dev}
		took := onlyOne(t, time.Minute, all, dev.Held)
		require.Less(t, took, 10*time.Second, "two looks of each at the other, and the pass of 3 seconds")
		require.ErrorIs(t, <-one.ended, ErrYielded)
		_, annotations := leaseOf(server)
		require.Contains(t, annotations[annotationTaken], "alice@laptop")
		require.Empty(t, annotations[annotationRequest], "it is heeded")

		again := startLease(t, server, "one-again", "", 0)
		all = append(all, again)
		onlyOne(t, time.Hour, all, func() bool { return time.Since(dev.own.Since) > 10*time.Minute })
		require.True(t, dev.Held(), "nobody contends")

		dev.stop()
		require.NoError(t, <-dev.ended)
		took = onlyOne(t, time.Minute, all, func() bool { return two.Held() || again.Held() })
		require.LessOrEqual(t, took, 4400*time.Millisecond, "as after any leader")
		_, annotations = leaseOf(server)
		require.Empty(t, annotations[annotationTaken])
		two.stop()
		again.stop()
	})
}

// A leader that gives the lease away leaves it to the replica that waits, as at its end (S357).
func TestGiveAway(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		asked  bool // a process asks for the lease at the same time
		next   string
	}{
		"To a replica": {reason: "the lease is released", next: "two"},
		"Asked for":    {reason: "the process that asks comes first", asked: true, next: "dev"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := fakeapi.New(fakeapi.Leases())
				one, two := startLease(t, server, "one", "", 3*time.Second), startLease(t, server, "two", "", 0)
				require.True(t, one.Held())
				all := []*runningLease{one, two}
				if tc.asked {
					all = append(all, startLease(t, server, "dev", "alice@laptop", 0))
					onlyOne(t, time.Minute, all, func() bool { _, annotations := leaseOf(server); return annotations[annotationRequest] != "" })
				}
				one.GiveAway()
				one.GiveAway()
				took := onlyOne(t, time.Minute, all, func() bool { holder, _ := leaseOf(server); return holder == tc.next })
				require.LessOrEqual(t, took, 7400*time.Millisecond, "the work takes 3 s to end, and 2.2 times RetryPeriod")
				require.ErrorIs(t, <-one.ended, ErrGivenAway, tc.reason)
				require.NoError(t, one.Lost(), "it wasn't lost")
				for _, l := range all[1:] {
					l.stop()
				}
			})
		})
	}
}

// A process that has the lease, and doesn't renew it, loses it as any leader does.
func TestTakeOver_Stopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Leases())
		one := startLease(t, server, "one", "", 0)
		dev := startLease(t, server, "dev", "alice@laptop", 0)
		onlyOne(t, time.Minute, []*runningLease{one, dev}, dev.Held)
		require.ErrorIs(t, <-one.ended, ErrYielded)
		again := startLease(t, server, "again", "", 0)
		server.SetHooks(fakeapi.Hooks{Admit: func(_ fakeapi.Request, o map[string]any) error {
			if spec, _ := o["spec"].(map[string]any); spec["holderIdentity"] == "dev" {
				return errors.New("cut off")
			}
			return nil
		}})
		took := onlyOne(t, time.Minute, []*runningLease{dev, again}, again.Held)
		require.Less(t, took, 20*time.Second)
		require.ErrorContains(t, <-dev.ended, "did the machine sleep?")
		holder, annotations := leaseOf(server)
		require.Equal(t, "again", holder)
		require.Equal(t, map[string]string{annotationYields: "again"}, annotations, "what the one before had said is gone")
		again.stop()
		require.NoError(t, <-again.ended)
	})
}

func TestTakeOver_Refused(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		holder func(t *testing.T, server *fakeapi.Server)
		err    string
	}{
		"Taken": {"two developers would work on one cluster", func(t *testing.T, server *fakeapi.Server) {
			startLease(t, server, "dev", "alice@laptop", 0)
		}, "alice@laptop has taken it over, since "},
		"Older build": {"it would never give the lease up", func(t *testing.T, server *fakeapi.Server) {
			old := startLease(t, server, "old", "", 0)
			server.SetHooks(fakeapi.Hooks{Admit: func(_ fakeapi.Request, o map[string]any) error {
				spec, _ := o["spec"].(map[string]any)
				if meta, _ := o["metadata"].(map[string]any); spec["holderIdentity"] == "old" {
					delete(meta, "annotations")
				}
				return nil
			}})
			require.True(t, old.Held())
		}, "its holder, old, can't be asked for it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := fakeapi.New(fakeapi.Leases())
				tc.holder(t, server)
				<-time.After(5 * time.Second)
				dev := startLease(t, server, "bob", "bob@desk", 0)
				require.ErrorContains(t, <-dev.fatal, tc.err, tc.reason)
				require.NoError(t, <-dev.ended)
				require.False(t, dev.Held())
				_, annotations := leaseOf(server)
				require.Empty(t, annotations[annotationRequest], "nothing was asked for")
			})
		})
	}
}

// A holder that has ended without releasing the lease is waited for, whatever build it was.
func TestTakeOver_EndedHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Leases())
		crashed := newTestLease(t, server, "crashed")
		stopped := startLease(t, server, "crashed", "", 0)
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "update" && stopped.Held() {
				return errors.New("cut off")
			}
			return nil
		}})
		require.Error(t, <-stopped.ended)
		require.False(t, crashed.Held())
		dev := startLease(t, server, "dev", "alice@laptop", 0)
		onlyOne(t, 20*time.Second, []*runningLease{dev}, dev.Held)
		require.Empty(t, dev.fatal)
		dev.stop()
		require.NoError(t, <-dev.ended)
	})
}

// A process that ends before its request is heeded takes the request back, and the leader
// goes on.
func TestTakeOver_Withdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Leases())
		one := startLease(t, server, "one", "", 20*time.Second)
		dev := startLease(t, server, "dev", "alice@laptop", 0)
		<-time.After(5 * time.Second)
		dev.stop()
		require.NoError(t, <-dev.ended)
		require.ErrorIs(t, <-one.ended, ErrYielded, "it had begun to end")
		holder, annotations := leaseOf(server)
		require.Empty(t, holder, "it is anybody's")
		require.Empty(t, annotations)
	})
}

// A request of a process that has ended since isn't heeded by the next leader.
func TestTakeOver_StaleRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Leases())
		one := startLease(t, server, "one", "", 0)
		one.stop()
		require.NoError(t, <-one.ended)
		_, err := server.Change(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: "op"}, func(o map[string]any) {
			meta, _ := o["metadata"].(map[string]any)
			meta["annotations"] = map[string]any{annotationRequest: `{"identity":"dev","by":"alice@laptop"}`, "theirs": "kept"}
		})
		require.NoError(t, err)
		two := startLease(t, server, "two", "", 0)
		<-time.After(time.Minute)
		require.True(t, two.Held())
		_, annotations := leaseOf(server)
		require.Equal(t, map[string]string{annotationYields: "two", "theirs": "kept"}, annotations)

		for _, nonsense := range []string{"", "{", `{"identity":""}`, `{"identity":"two"}`, `[]`} {
			_, err := server.Change(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: "op"}, func(o map[string]any) {
				meta, _ := o["metadata"].(map[string]any)
				meta["annotations"] = map[string]any{annotationRequest: nonsense, annotationYields: "two"}
			})
			require.NoError(t, err)
			<-time.After(time.Minute)
			require.True(t, two.Held(), "%q is nobody's request", nonsense)
		}
		two.stop()
		require.NoError(t, <-two.ended)
	})
}
