package conformance

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/testkit"
)

func TestC70_StartThatCannotWork(t *testing.T) {
	scenario(t, "C70", "start without the CRD, without RBAC, without an API server: a clear error within 10 s")
	const limit = 10 * time.Second
	admin := kubeconfigAs(t, "c70-admin", true)
	deaf, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // takes connections, and says nothing
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, deaf.Close()) })
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
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
			"is forbidden: ", `add the rule {apiGroups: [`, `verbs: [\"get\", \"list\", \"watch\"]`,
		}},
		"no-api-server":   {elsewhere(closed.Addr().String()), "", []string{"can't be reached", closed.Addr().String(), "connection refused"}},
		"deaf-api-server": {elsewhere(deaf.Addr().String()), "", []string{"can't be reached", deaf.Addr().String()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lost, begin := lostTime(t), time.Now()
			p := startOperator(t, "c70-"+name, tc.kubeconfig, []string{tc.env})
			require.Equal(t, 1, p.exit(patience))
			require.Less(t, time.Since(begin), limit+lost())
			for _, text := range tc.says {
				require.Contains(t, p.said(), text)
			}
		})
	}
}

func TestC72_EndInTheMiddleOfAPass(t *testing.T) {
	scenario(t, "C72", "SIGTERM in the middle of a pass: the pass is finished, no other is begun, exit code 0")
	kit := bystander(t, "c72-bystander")
	p := startOperator(t, "c72", kubeconfigAs(t, "c72", true), nil, "--namespace="+kit.Namespace)
	p.says("msg=started")
	kit.Create(parent("slow", map[string]any{"data": map[string]any{"wait": "3s"}}))
	p.says("waiting for slow")
	p.signal(syscall.SIGTERM)
	kit.Create(parent("late", nil))
	require.Equal(t, 0, p.exit(patience))
	require.NotNil(t, kit.Get(configMap("slow", "", "")), "what the pass was about was done")
	require.Nil(t, kit.Get(configMap("late", "", "")))
	require.NotContains(t, p.said(), "level=ERROR")

	// A second signal ends it at once.
	p = startOperator(t, "c72", kubeconfigAs(t, "c72", true), nil, "--namespace="+kit.Namespace)
	kit.Update(parent("slow", map[string]any{"data": map[string]any{"wait": "10m"}}))
	p.says("waiting for slow")
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		require.Fail(t, "it didn't wait for the pass")
	case <-time.After(time.Second):
	}
	p.signal(syscall.SIGTERM)
	require.NotEqual(t, 0, p.exit(10*time.Second))
}

func TestC73_Replicas(t *testing.T) {
	scenario(t, "C73", "replicas with leader election: one works; after SIGTERM, kill -9 and a freeze another takes over in time, and none writes that doesn't lead")
	const leaseDuration, retryPeriod = 15 * time.Second, 2 * time.Second
	const handOver = retryPeriod * 22 / 10
	log := needsAudit(t)
	kit := bystander(t, "c73-bystander")
	start := func(name string) *process {
		return startOperator(t, "c73", kubeconfigAs(t, "c73-"+name, true), nil, "--namespace="+kit.Namespace, "--leader-elect")
	}
	from := log.mark(t)
	// writes returns the requests of a replica that were to change something.
	writes := func(name string) []request {
		return slices.DeleteFunc(log.all(t, from), func(r request) bool { return r.As != "c73-"+name || !r.persists() })
	}
	// led returns when a replica took the lease for the first time.
	led := func(name string) time.Time {
		for _, r := range writes(name) {
			if r.Resource == "leases" && r.Code < 300 {
				return r.Received
			}
		}
		return time.Time{}
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
	one.says("msg=leading")
	works(1, "one")
	two := start("two")
	two.says("waiting: the lease is held by another")
	works(2, "one")
	require.Empty(t, writes("two"))

	lost := lostTime(t)
	told, earlier := time.Now(), lost()
	one.signal(syscall.SIGTERM)
	require.Equal(t, 0, one.exit(patience))
	two.says("msg=leading")
	require.LessOrEqual(t, led("two").Sub(told), handOver+time.Second+lost()-earlier)
	works(3, "two")

	three := start("three")
	three.says("waiting: the lease is held by another")
	killed, earlier := time.Now(), lost()
	two.signal(syscall.SIGKILL)
	three.says("msg=leading")
	require.LessOrEqual(t, led("three").Sub(killed), leaseDuration+handOver+lost()-earlier)
	works(4, "three")

	// A process that stands still for longer than the lease lasts finds out
	// before it writes anything.
	four := start("four")
	four.says("waiting: the lease is held by another")
	three.freeze()
	kit.Create(parent("frozen", nil)) // which three would see at once when it goes on
	four.says("msg=leading")
	works(5, "four")
	before := len(writes("three"))
	three.signal(syscall.SIGCONT)
	require.Equal(t, 1, three.exit(patience))
	require.Contains(t, three.said(), "lost: it wasn't renewed for 10s")
	require.Len(t, writes("three"), before, "nothing was written without the lease")
	four.signal(syscall.SIGTERM)
	require.Equal(t, 0, four.exit(patience))
}

func TestC76_ResyncOnTime(t *testing.T) {
	scenario(t, "C76", "a resync of 0.1 s is on time (< 0.5 s) with 1,000 other parents")
	const others, rounds = 1000, 50
	var mu sync.Mutex
	var calls []time.Time
	kit := testkit.New(t, cluster, operator("c76", configMapChild()), handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if req.Parent.Name() != "often" {
			return &handler.SyncResponse{Resync: time.Minute}, nil
		}
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, time.Now())
		return &handler.SyncResponse{Resync: 100 * time.Millisecond}, nil
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
	var gaps []time.Duration
	for i := 1; i < len(calls); i++ {
		gaps = append(gaps, calls[i].Sub(calls[i-1]))
	}
	slices.Sort(gaps)
	require.GreaterOrEqual(t, gaps[0], 100*time.Millisecond, "not early")
	require.Less(t, gaps[len(gaps)*9/10], 500*time.Millisecond, "not late: %v", gaps)
}
