package shards

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/roperator/roperator/internal/testing/audit"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/testkit"
)

// A replica is a process that impersonates a user of its own, which is its identity in Leases, too.
type replica struct {
	*operatorproc.Process
	identity string
}

// A stage is a namespace in which replicas work, and people.
type stage struct {
	*testing.T
	cluster   *testkit.Cluster
	log       string // the file of the audit log
	client    dynamic.Interface
	namespace string
	people    *people

	divides map[string]int // the replicas so far, and into how many shards they divide
	of      int            // into how many shards those divide that are alive; 0: they don't
	alive   []*replica     // those that are to have shards
	all     []*replica
	moves   []move
	entries []audit.Entry // of the log, as far as it was read
	read    int64
}

// start starts a cluster that ends with the test.
func startCluster(t *testing.T, flags map[string]string) *testkit.Cluster {
	t.Helper()
	cluster, err := testkit.Start(testkit.ClusterOptions{CRDPaths: []string{"testdata/crd.yaml"}, APIServerFlags: flags})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	return cluster
}

// newNamespace creates a namespace.
func newNamespace(t *testing.T, client dynamic.Interface) string {
	t.Helper()
	made, err := client.Resource(resourceOf("", "v1", "namespaces")).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "shards-"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return made.GetName()
}

func newStage(t *testing.T) *stage {
	t.Helper()
	flags, log, err := audit.ServerFlags(t.TempDir())
	require.NoError(t, err)
	s := &stage{T: t, log: log, divides: map[string]int{}}
	s.cluster = startCluster(t, flags)
	s.client = dial(t, s.cluster.RESTConfig())
	s.namespace = newNamespace(t, s.client)
	s.people = newPeople(t, s.client.Resource(resourceOf("shards.example.com", "v1", "gadgets")).Namespace(s.namespace))
	return s
}

// replica starts a replica; of none: one that doesn't divide.
func (s *stage) replica(identity string, of int) *replica {
	s.Helper()
	s.divides[identity] = of
	r := startReplica(s.T, s.cluster, s.namespace, gadgets, identity, of)
	s.all = append(s.all, r)
	return r
}

// startReplica starts a replica of one of the operators.
func startReplica(t *testing.T, cluster *testkit.Cluster, namespace, operator, identity string, of int) *replica {
	t.Helper()
	return &replica{operatorproc.Command{
		Name: operator,
		Args: []string{"run", "--leader-elect", fmt.Sprint("--shards=", of), "--metrics-bind-address=0", "--health-probe-bind-address=0"},
		Env: []string{
			"KUBECONFIG=" + operatorproc.Kubeconfig(t, cluster.Kubeconfig(), identity, true),
			identityVariable + "=" + identity, namespaceVariable + "=" + namespace,
		},
	}.Start(t), identity}
}

// move notes that shards are to change hands now.
func (s *stage) move(format string, args ...any) {
	s.moves = append(s.moves, move{fmt.Sprintf(format, args...), time.Now()})
}

// join starts a replica that divides, and waits until it has its part.
func (s *stage) join(identity string) {
	s.Helper()
	s.move("%s joins", identity)
	s.alive = append(s.alive, s.replica(identity, s.of))
	s.settled()
}

// ask has replicas of those that have shards end by SIGTERM at the same time.
func (s *stage) ask(leaving ...*replica) {
	s.Helper()
	var names []string
	for _, r := range leaving {
		names = append(names, r.identity)
	}
	s.move("SIGTERM for %s", strings.Join(names, ", "))
	for _, r := range leaving {
		r.Signal(syscall.SIGTERM)
		s.without(r)
	}
	for _, r := range leaving {
		require.Zero(s, r.Exit(), r.identity)
	}
	s.settled()
	s.acted(30)
}

// without takes a replica off those that are to have shards.
func (s *stage) without(r *replica) {
	s.alive = slices.DeleteFunc(s.alive, func(other *replica) bool { return other == r })
}

// held returns how many shards each replica holds, by what the Leases say.
func (s *stage) held() map[string]int {
	s.Helper()
	out := map[string]int{}
	for index := range s.of {
		lease, err := s.client.Resource(resourceOf("coordination.k8s.io", "v1", "leases")).Namespace(s.namespace).Get(
			s.Context(), shardLease(operatorName, index), metav1.GetOptions{})
		if err != nil {
			out[""]++ // there is no such Lease yet
			continue
		}
		holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
		out[holder]++
	}
	return out
}

// shared waits until the replicas share the shards evenly, by what the Leases say.
func (s *stage) shared() map[string]int {
	s.Helper()
	var held map[string]int
	require.Eventually(s, func() bool {
		held = s.held()
		for _, r := range s.alive {
			if n := held[r.identity]; n < s.of/len(s.alive) || n > (s.of+len(s.alive)-1)/len(s.alive) {
				return false
			}
		}
		return s.of == 0 || len(held) == len(s.alive)
	}, patience, 100*time.Millisecond, "the replicas share the shards evenly")
	return held
}

// settled waits until the replicas share the shards evenly, and each has written for a parent.
func (s *stage) settled() {
	s.Helper()
	held := s.shared()
	for _, r := range s.alive {
		s.works(r)
	}
	s.Logf("%s: settled %.1f s after %s: %v", time.Now().Format("15:04:05"), time.Since(s.moves[len(s.moves)-1].at).Seconds(), s.moves[len(s.moves)-1].what, held)
}

// news reads what is new in the audit log, and returns it.
func (s *stage) news() []audit.Entry {
	s.Helper()
	entries, read := audit.Entries(s.T, s.log, s.read)
	s.entries, s.read = append(s.entries, entries...), read
	return entries
}

// works waits until a replica writes from now on for a parent.
func (s *stage) works(r *replica) {
	s.Helper()
	now := time.Now()
	require.Eventually(s, func() bool {
		return slices.ContainsFunc(s.news(), func(e audit.Entry) bool {
			return e.ImpersonatedUser.Username == r.identity && e.RequestReceivedTimestamp.After(now) &&
				e.ResponseStatus.Code < 300 && !slices.Contains([]string{"leases", "events"}, e.ObjectRef.Resource)
		})
	}, patience, 100*time.Millisecond, "%s writes", r.identity)
}

// kill kills a replica.
func (s *stage) kill(r *replica) {
	s.Helper()
	s.move("SIGKILL for %s", r.identity)
	r.Signal(syscall.SIGKILL)
	s.without(r)
	s.settled()
}

// crash kills a replica, in whose place another one starts shortly before the Leases expire.
func (s *stage) crash(r *replica, next string) {
	s.Helper()
	s.move("SIGKILL for %s, later %s joins", r.identity, next)
	r.Signal(syscall.SIGKILL)
	s.without(r)
	<-time.After(leaseDuration * 3 / 4)
	s.alive = append(s.alive, s.replica(next, s.of))
	s.settled()
}

// freeze stops a replica until others have its shards, and people have done so many things more. Then
// it goes on, and gets its part again.
func (s *stage) freeze(r *replica, acts int64) {
	s.Helper()
	s.move("SIGSTOP for %s", r.identity)
	r.Freeze()
	s.without(r)
	s.settled()
	s.acted(acts)
	s.move("SIGCONT for %s", r.identity)
	r.Signal(syscall.SIGCONT)
	s.alive = append(s.alive, r)
	s.settled()
}

// freezeShortly stops a replica for longer than RenewDeadline, and for less than LeaseDuration.
func (s *stage) freezeShortly(r *replica) {
	s.Helper()
	s.move("a short SIGSTOP for %s", r.identity)
	r.Freeze()
	<-time.After((renewDeadline + leaseDuration) / 2)
	r.Signal(syscall.SIGCONT)
	s.settled()
}

// churn has two replicas join while one leaves, one dies and one freezes.
func (s *stage) churn(round int) {
	s.Helper()
	leaving, dying, frozen := s.alive[0], s.alive[1], s.alive[2]
	s.move("two join, SIGTERM, SIGKILL, SIGSTOP")
	joining := []*replica{s.replica(fmt.Sprint("f", 2*round), shards), s.replica(fmt.Sprint("f", 2*round+1), shards)}
	leaving.Signal(syscall.SIGTERM)
	dying.Signal(syscall.SIGKILL)
	frozen.Freeze()
	s.alive = append(joining, s.alive[3:]...)
	require.Zero(s, leaving.Exit(), leaving.identity)
	s.settled()
	s.move("SIGCONT for %s", frozen.identity)
	frozen.Signal(syscall.SIGCONT)
	s.alive = append(s.alive, frozen)
	s.settled()
}

// acted waits until people have done so many things more.
func (s *stage) acted(more int64) {
	s.Helper()
	before := s.people.edits.Load()
	require.Eventually(s, func() bool { return s.people.edits.Load() >= before+more || s.Failed() }, patience, 50*time.Millisecond)
}

// converged waits until all is as the parents say.
func (s *stage) converged() {
	s.Helper()
	var wrong []string
	if !s.Eventually(func() bool {
		var err error
		wrong, err = s.wrongState(s.Context())
		require.NoError(s, err)
		return len(wrong) == 0
	}) {
		require.Fail(s, "not all is as the parents say", "%d: %q", len(wrong), wrong[:min(len(wrong), 20)])
	}
}

// Eventually says whether a condition came true in time.
func (s *stage) Eventually(condition func() bool) bool {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if condition() {
			return true
		}
	}
	return false
}

// silent waits until nobody has written anything but Leases for some time. It fails if
// somebody writes for long after all is done.
func (s *stage) silent(quiet time.Duration) {
	s.Helper()
	begin := time.Now()
	last, what := begin, ""
	require.Eventually(s, func() bool {
		for _, e := range s.news() {
			if _, ours := s.divides[e.ImpersonatedUser.Username]; ours && !e.Reads() && e.ObjectRef.Resource != "leases" && e.StageTimestamp.After(last) {
				last, what = e.StageTimestamp, e.Write().What+" by "+e.Write().As
			}
		}
		return time.Since(last) >= quiet
	}, 3*quiet, 200*time.Millisecond, "nobody writes; lately: %s", what)
	s.Logf("nobody wrote anything but Leases for %v; the last write was %.1f s after all was as the parents say: %s", quiet, last.Sub(begin).Seconds(), what)
}

// upgrade replaces all replicas by one that divides otherwise, as a rolling upgrade begins: it
// waits until they have ended.
func (s *stage) upgrade(identity string, of int) {
	s.Helper()
	next := s.replica(identity, of)
	next.Says("waiting: the lease is held by another")
	s.acted(20)
	s.move("from %d shards to %d", s.of, of)
	for _, r := range s.alive {
		r.Signal(syscall.SIGTERM)
	}
	for _, r := range s.alive {
		require.Zero(s, r.Exit(), r.identity)
	}
	s.alive, s.of = []*replica{next}, of
	s.settled()
}

// Replicas come, go, die and freeze, while people change parents. No two of them ever write for one parent.
func TestShards(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	s := newStage(t)
	s.people.populate(number(t, "SHARDS_PARENTS", 60))
	stop := s.people.work(number(t, "SHARDS_RATE", 30))
	t.Cleanup(stop)

	undivided := s.replica("u1", 0)
	s.works(undivided)
	s.alive = append(s.alive, undivided)
	s.upgrade("d1", shards)
	s.join("d2")
	s.join("d3")
	s.ask(s.alive[0])
	s.join("d4")
	s.join("d5")
	s.join("d6")

	for round := range number(t, "SHARDS_ROUNDS", 1) {
		if round > 0 {
			s.join(fmt.Sprint("d", 10+round))
		}
		s.crash(s.alive[0], fmt.Sprint("c", round))
		s.kill(s.alive[round%len(s.alive)])
		s.freeze(s.alive[0], 60)
		s.freezeShortly(s.alive[1])
		s.churn(round)
	}
	s.ask(slices.Clone(s.alive[1:])...)

	// To other numbers of shards and back.
	s.upgrade("e1", shards/4)
	s.join("e2")
	s.upgrade("u2", 0)
	s.upgrade("d7", shards)

	stop()
	s.converged()
	s.silent(10 * time.Second)
	s.judge()
}

// judge has the oracle judge what the log tells.
func (s *stage) judge() {
	s.Helper()
	s.news()
	o := &oracle{
		operator: operatorName, leaseDuration: leaseDuration, renewDeadline: renewDeadline, slack: 500 * time.Millisecond,
		divides: s.divides, parents: s.people.uids(),
	}
	h := o.read(s.T, s.entries)
	violations, late := o.judge(h)
	written, refused := map[string]int{}, map[string]int{}
	for _, w := range h.writes {
		written[w.As]++
		if w.refused {
			verb, object, _ := strings.Cut(w.What, " ")
			resource, _, _ := strings.Cut(object, "/")
			refused[fmt.Sprint(w.code, " ", verb, " ", resource)]++
		}
	}
	s.Logf("%d writes for parents: %v; refused: %v; %d ended only after another had taken the shard", len(h.writes), written, refused, late)
	for _, e := range h.unclear {
		next := "nobody wrote it later"
		for _, w := range h.leases[e.ObjectRef.Name] {
			if w.received.After(e.RequestReceivedTimestamp) {
				next = fmt.Sprintf("%v later %s wrote it, with the holder %q", w.received.Sub(e.RequestReceivedTimestamp), w.as, w.holder)
				break
			}
		}
		s.Logf("code %d, so nobody knows whether it was carried out: %s by %s at %s; %s", e.ResponseStatus.Code, e.Write().What, e.Write().As, clock(e.RequestReceivedTimestamp), next)
	}
	takeovers(s.T, o, h, s.moves)
	s.warnings()
	for _, replica := range slices.Sorted(maps.Keys(s.divides)) {
		require.Positive(s, written[replica], "%s wrote", replica)
	}
	if len(violations) > 0 {
		require.Fail(s, fmt.Sprint(len(violations), " violations"), strings.Join(violations[:min(len(violations), 50)], "\n"))
	}
}

// warnings writes what replicas have warned of, each once, with how many of them have.
func (s *stage) warnings() {
	said := map[string]int{}
	for _, r := range s.all {
		for line := range strings.Lines(r.Said()) {
			if _, text, ok := strings.Cut(line, "level="); ok && !strings.HasPrefix(text, "INFO") {
				said[text]++
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(said)) {
		s.Logf("%d times: %s", said[text], text)
	}
}
