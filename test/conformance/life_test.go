package conformance

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/testkit"
)

// refusingAddress returns one at which nobody listens, nor will: its port is
// taken, by a socket that doesn't listen.
func refusingAddress(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(socket)) })
	require.NoError(t, syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := syscall.Getsockname(socket)
	require.NoError(t, err)
	return fmt.Sprint("127.0.0.1:", bound.(*syscall.SockaddrInet4).Port)
}

func TestC70_StartThatCannotWork(t *testing.T) {
	scenario(t, "C70", "start without the CRD, without RBAC, without an API server: a clear error, and no hang")
	admin := kubeconfigAs(t, "c70-admin", true)
	deaf, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // takes connections, and says nothing
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, deaf.Close()) })
	closed := refusingAddress(t)
	elsewhere := func(address string) string {
		cfg, err := clientcmd.LoadFromFile(admin)
		require.NoError(t, err)
		for _, c := range cfg.Clusters {
			c.Server = "https://" + address
		}
		file := t.TempDir() + "/kubeconfig"
		require.NoError(t, clientcmd.WriteToFile(*cfg, file))
		return file
	}
	for name, tc := range map[string]struct {
		kubeconfig string
		env        string
		says       []string
	}{
		"no-crd": {admin, kindVariable + "=Nonesuch", []string{
			"conformance.roperator.com/v1/Nonesuch: the API server doesn't serve this type", "install the CustomResourceDefinition of kind Nonesuch in group conformance.roperator.com",
		}},
		"no-rbac": {kubeconfigAs(t, "c70-nobody", false), "", []string{
			"parents.conformance.roperator.com: get, list, watch, patch are forbidden", "configmaps: get, list, watch, ", `add the rule {apiGroups: [`,
			`resources: [\"parents\"], verbs: [\"get\", \"list\", \"watch\", \"patch\"]`,
		}},
		"no-api-server":   {elsewhere(closed), "", []string{unreachable, closed, "connection refused"}},
		"deaf-api-server": {elsewhere(deaf.Addr().String()), "", []string{unreachable, deaf.Addr().String()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := ""
			// An API server that has too much to do can't be reached either, in
			// the time that a start may take.
			for try := 0; try == 0 || try < 10 && strings.Contains(said, unreachable) && !slices.Contains(tc.says, unreachable); try++ {
				p := launch(t, "c70-"+name, tc.kubeconfig, []string{tc.env})
				require.Equal(t, 1, p.Exit())
				said = p.Said()
			}
			for _, text := range tc.says {
				require.Contains(t, said, text)
			}
		})
	}
}

func TestC72_EndInTheMiddleOfAPass(t *testing.T) {
	scenario(t, "C72", "SIGTERM in the middle of a pass: the pass is finished, no other is begun, exit code 0")
	log := needsAudit(t)
	kit := bystander(t, "c72-bystander")
	kit.Create(parent("slow", map[string]any{"data": map[string]any{"wait": "for a word"}}))
	// begin returns an operator in the middle of its only pass, and end tells it
	// to end, and returns when it has heard that.
	begin := func() (p *operatorproc.Process, end func()) {
		from := log.mark(t)
		p = startOperator(t, "c72", kubeconfigAs(t, "c72", true), nil, "--namespace="+kit.Namespace, "--max-concurrent-syncs=1")
		p.Says("waiting for slow")
		return p, func() {
			p.Signal(syscall.SIGTERM)
			eventually(t, "its watches end", func() bool { return log.watching(t, from, "c72") == 0 })
		}
	}
	p, end := begin()
	kit.Create(parent("late", nil)) // its turn comes after the pass, if ever
	end()
	require.False(t, p.Ended(), "it waits for the pass")
	p.Word()
	require.Equal(t, 0, p.Exit())
	require.NotNil(t, kit.Get(configMap("slow", "", "")), "what the pass was about was done")
	require.Nil(t, kit.Get(configMap("late", "", "")))
	require.NotContains(t, p.Said(), "level=ERROR")

	// A second signal ends it at once, and nothing else does.
	p, end = begin()
	end()
	require.False(t, p.Ended(), "it waits for the pass")
	eventually(t, "a second signal ends it", func() bool {
		p.SignalIfRunning(syscall.SIGTERM)
		return p.Ended()
	})
	require.Equal(t, -1, p.Exit(), "by the signal")
}

func TestC73_Replicas(t *testing.T) {
	scenario(t, "C73", "replicas with leader election: one works; after SIGTERM, kill -9 and a freeze another takes over in time, and none writes that doesn't lead")
	const leaseDuration = 15 * time.Second
	log := needsAudit(t)
	kit := bystander(t, "c73-bystander")
	start := func(name string) *operatorproc.Process {
		return startOperator(t, "c73", kubeconfigAs(t, "c73-"+name, true), nil, "--namespace="+kit.Namespace, "--leader-elect")
	}
	from := log.mark(t)
	// writes returns the requests of a replica that were to change something.
	writes := func(name string) []request {
		return slices.DeleteFunc(log.all(t, from), func(r request) bool { return r.As != "c73-"+name || !r.persists() })
	}
	// renewed returns when a replica wrote the lease, and looked when it read it.
	renewed := func(name string) (times []time.Time) {
		for _, r := range writes(name) {
			if r.Resource == "leases" && r.Code < 300 {
				times = append(times, r.Received)
			}
		}
		return times
	}
	looked := func(name string) (times []time.Time) {
		for _, r := range log.all(t, from) {
			if r.As == "c73-"+name && r.Resource == "leases" && r.Verb == "get" {
				times = append(times, r.Received)
			}
		}
		return times
	}
	works := func(n int, by string) {
		t.Helper()
		name := fmt.Sprint("p", n)
		kit.Create(parent(name, nil))
		kit.EventuallyExists(configMap(name, "", ""), patience)
		eventually(t, by+" works", func() bool {
			return slices.ContainsFunc(writes(by), func(r request) bool {
				return r.Verb == "create" && r.Resource == "configmaps" && r.Name == name
			})
		})
	}
	one := start("one")
	one.Says("msg=leading")
	works(1, "one")
	two := start("two")
	two.Says("waiting: the lease is held by another")
	works(2, "one")
	require.Empty(t, writes("two"))

	// How often a replica looks is for other tests to say, in which no other
	// process takes time. Here it takes over when it looks for the first time
	// that it may; one look may have been under way.
	one.Signal(syscall.SIGTERM)
	require.Equal(t, 0, one.Exit())
	two.Says("msg=leading")
	released, taken := last(renewed("one")), renewed("two")[0]
	require.LessOrEqual(t, len(within(looked("two"), released, taken)), 2, "looks at a lease that is free")
	works(3, "two")

	three := start("three")
	three.Says("waiting: the lease is held by another")
	two.Signal(syscall.SIGKILL)
	three.Says("msg=leading")
	held, taken := last(renewed("two")), renewed("three")[0]
	require.GreaterOrEqual(t, taken.Sub(held), leaseDuration, "not before the lease is over")
	if seen := within(looked("three"), held, taken); len(seen) >= 3 {
		// The first look may have been under way, the second one has seen the
		// lease that was the last, and before the third one it knew.
		require.LessOrEqual(t, len(within(seen, seen[2].Add(leaseDuration), taken)), 2, "looks at a lease that is over")
	}
	works(4, "three")

	// A process that stands still for longer than the lease lasts finds out
	// before it writes anything.
	four := start("four")
	four.Says("waiting: the lease is held by another")
	three.Freeze()
	kit.Create(parent("frozen", nil)) // which three would see at once when it goes on
	four.Says("msg=leading")
	works(5, "four")
	before := len(writes("three"))
	three.Signal(syscall.SIGCONT)
	require.Equal(t, 1, three.Exit())
	require.Regexp(t, "lost: (it wasn't renewed for 10s|.* took it)", three.Said())
	require.Len(t, writes("three"), before, "nothing was written without the lease")
	four.Signal(syscall.SIGTERM)
	require.Equal(t, 0, four.Exit())
}

func last(times []time.Time) time.Time { return times[len(times)-1] }

// within returns those of the times that are neither before from nor after to.
func within(times []time.Time, from, to time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(times), func(t time.Time) bool { return t.Before(from) || t.After(to) })
}

func TestC76_ResyncAmongMany(t *testing.T) {
	scenario(t, "C76", "a resync of 0.1 s comes again and again, and never early, with 1,000 other parents")
	const others, rounds, resync = 1000, 50, 100 * time.Millisecond
	var mu sync.Mutex
	var calls []time.Time
	kit := testkit.New(t, cluster, operator("c76", configMapChild()), handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if req.Parent.Name() != "often" {
			return &handler.SyncResponse{Resync: time.Minute}, nil
		}
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, time.Now())
		return &handler.SyncResponse{Resync: resync}, nil
	}))
	var creators sync.WaitGroup
	for i := range 4 {
		creators.Go(func() {
			for n := i; n < others; n += 4 {
				kit.Create(parent(fmt.Sprint("p", n), nil))
			}
		})
	}
	creators.Wait()
	kit.Create(parent("often", nil))
	eventually(t, "it is called often", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(calls) > rounds
	})
	mu.Lock()
	defer mu.Unlock()
	// That it is on time is for the scheduler's own test to say, in which no
	// other process takes time.
	for i := 1; i < len(calls); i++ {
		require.GreaterOrEqual(t, calls[i].Sub(calls[i-1]), resync, "not early")
	}
}
