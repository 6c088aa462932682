package conformance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

// A stage is an operator with one parent, whose children are what the test
// says.
type stage struct {
	*testkit.Kit
	t       *testing.T
	config  config.Operator
	parent  string   // name
	silence *silence // nil if the Kit isn't the stage's own

	mu struct {
		sync.Mutex
		revision int // of the parent's spec: what shall be has changed
		count    int // of the children that are wanted; 0 if only the handler knows
		wanted   func(*handler.SyncRequest) *handler.SyncResponse
	}
}

// newStage starts an operator of this name, which is the test's own, for these
// child types. There is no parent before the first want.
func newStage(t *testing.T, name string, children ...config.Child) *stage {
	t.Helper()
	return newStageWith(t, operator(name, children...), testkit.KitOptions{})
}

func newStageWith(t *testing.T, cfg config.Operator, opts testkit.KitOptions) *stage {
	t.Helper()
	s := &stage{t: t, config: cfg, parent: "one"}
	s.start(handler.SyncFunc(s.sync), opts)
	return s
}

// start starts the operator. It may run on after the test, unless it connects by something of the
// test or works in another operator's namespace.
func (s *stage) start(h handler.Handler, opts testkit.KitOptions) {
	s.t.Helper()
	s.silence = newSilence(s.t, rests, s.config.Name)
	s.t.Cleanup(func() { s.silence.leave(opts.Runner.RESTConfig == nil && opts.Namespace == "") })
	s.Kit = testkit.NewWithOptions(s.silence.t, cluster, s.config, h, opts)
	rests.add(s.silence, s.Namespace)
}

// What a test does to the operator ends the silence.

func (s *stage) Create(obj any) { s.t.Helper(); s.silence.acts(); s.Kit.Create(obj) }

func (s *stage) Update(obj any) { s.t.Helper(); s.silence.acts(); s.Kit.Update(obj) }

func (s *stage) UpdateStatus(obj any) { s.t.Helper(); s.silence.acts(); s.Kit.UpdateStatus(obj) }

func (s *stage) Delete(obj any) { s.t.Helper(); s.silence.acts(); s.Kit.Delete(obj) }

func (s *stage) Stop() { s.t.Helper(); s.silence.acts(); s.Kit.Stop() }

func (s *stage) Restart(cfg config.Operator, h handler.Handler) {
	s.t.Helper()
	s.silence.acts()
	s.Kit.Restart(cfg, h)
}

// it returns the parent without a spec.
func (s *stage) it() map[string]any {
	it := parent(s.parent, nil)
	it["kind"] = s.config.Parent.Kind
	return it
}

func (s *stage) sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	s.mu.Lock()
	answer := s.mu.wanted
	s.mu.Unlock()
	return answer(req), nil
}

// want makes these the desired children and waits until the operator has
// settled without an error.
func (s *stage) want(children ...any) {
	s.t.Helper()
	s.ask(children...)
	settle(s.t, s.Kit)
	require.Empty(s.t, s.errors())
}

// ask makes these the desired children, by a change of the parent.
func (s *stage) ask(children ...any) {
	s.t.Helper()
	s.change(len(children), func(*handler.SyncRequest) *handler.SyncResponse {
		return &handler.SyncResponse{Children: children, Status: map[string]any{"phase": "Fine"}}
	})
}

// answer makes this the handler, by a change of the parent.
func (s *stage) answer(wanted func(*handler.SyncRequest) *handler.SyncResponse) {
	s.t.Helper()
	s.change(0, wanted)
}

func (s *stage) change(count int, wanted func(*handler.SyncRequest) *handler.SyncResponse) {
	s.t.Helper()
	s.silence.acts() // an event of a controller leads to the new answer too
	s.mu.Lock()
	s.mu.revision++
	s.mu.count, s.mu.wanted = count, wanted
	revision := s.mu.revision
	s.mu.Unlock()
	it := s.it()
	it["spec"] = map[string]any{"revision": revision}
	if revision == 1 {
		s.Create(it)
	} else {
		s.Update(it)
	}
}

// rebuild stops the operator, lets another one be done, and starts a build of
// it that wants these children; what the parent says is the same.
func (s *stage) rebuild(cfg config.Operator, meanwhile func(), children ...any) {
	s.t.Helper()
	s.Stop()
	if meanwhile != nil {
		meanwhile()
	}
	s.mu.Lock()
	s.mu.count, s.mu.wanted = len(children), func(*handler.SyncRequest) *handler.SyncResponse {
		return &handler.SyncResponse{Children: children, Status: map[string]any{"phase": "Fine"}}
	}
	s.mu.Unlock()
	s.config = cfg
	s.Restart(cfg, handler.SyncFunc(s.sync))
	settle(s.t, s.Kit)
	require.Empty(s.t, s.errors())
}

// restart starts the same build again, and requires that it finds nothing to
// do: an empty plan, no write, and one pass.
func (s *stage) restart() {
	s.t.Helper()
	s.Stop()
	log, before, versions := needsAudit(s.t), s.Syncs(s.it()), s.versions()
	from := log.mark(s.t)
	changes, err := s.plan(s.config)
	require.NoError(s.t, err)
	require.Empty(s.t, changes, "the plan of the same build")
	s.Restart(s.config, handler.SyncFunc(s.sync))
	settle(s.t, s.Kit)
	for _, r := range log.since(s.t, from, s.config.Name) {
		require.False(s.t, r.persists() && r.Code < 400, "after a restart: %s", r)
	}
	require.Empty(s.t, s.errors())
	passes := s.Syncs(s.it()) - before
	if s.versions() == versions { // else a controller has found something to do meanwhile
		require.Equal(s.t, 1, passes, "one pass after a restart")
	}
	s.silence.begin(0, nil)
}

func (s *stage) errors() []error { return s.HandlerErrors(s.it()) }

// children returns the live children, as the API server has them.
func (s *stage) children() []*resource.Resource {
	s.t.Helper()
	snapshot := s.Snapshot(s.it())
	require.NotNil(s.t, snapshot)
	var live []*resource.Resource
	for child := range snapshot.Children.All() {
		found := s.Get(child)
		require.NotNil(s.t, found, "%s", child)
		live = append(live, found)
	}
	return live
}

// silent fails the test if the operator makes a request, watches aside, until the test does the
// next thing to it, and for ten seconds if the test does nothing more. The children must be the
// same objects then; what controllers have made of them meanwhile is theirs. It doesn't wait: the
// next action does, for two seconds at most.
func (s *stage) silent() {
	s.t.Helper()
	needsAudit(s.t)
	before := s.children()
	s.silence.begin(shortSilence, func() {
		s.silence.t.Helper()
		for _, child := range before {
			now := s.Get(child)
			if now == nil || now.UID() != child.UID() {
				s.silence.t.Errorf("%s is another object, or gone, though its operator had settled", child)
			}
		}
	})
}

// late are the scenarios that wait ten real seconds for silence, and what may come so late there.
// Scenarios of conflict loops count tries for as long, by slow.
func late() map[string]string {
	return map[string]string{
		"C37b":  "an answer to a delete that was sent in the middle of a reconciliation",
		"C48":   "the next try in a namespace that goes",
		"C54":   "the next look whether the name is free",
		"C100":  "a step of a rollout",
		"C109":  "a try to delete what is held by a finalizer",
		"C112":  "a claim's controllers",
		"C116":  "a step of a rollout",
		"C117":  "a step of a rollout that stands",
		"C118":  "a step of a rollout that was reverted",
		"C120":  "a step of a rollout",
		"C121":  "a wait of the processes before the last",
		"C144":  "schemas are read again from time to time",
		"C155":  "the next try of a rejected write",
		"C161d": "parents that have left the selector are looked for from time to time",
		"C162b": "events that were held back",
		"C171":  "events that were held back",
		"C172":  "the next try to get the name",
		"C175":  "events that were held back",
		"C176":  "the next try of a rejected write",
		"C177":  "the next try of a delete",
		"C234":  "the next try to get the name",
		"C243":  "another call of the handler, which need not lead to a request",
		"C246":  "anything: the Kit's own reads are left out",
	}
}

// quiet fails the test as soon as the operators of these names make a request within ten seconds,
// for which it waits. The scenario must be one of late.
func quiet(t *testing.T, operators ...string) {
	t.Helper()
	quietBut(t, func(request) bool { return false }, operators...)
}

// quietBut does the same, requests that are allowed aside.
func quietBut(t *testing.T, allowed func(request) bool, operators ...string) {
	t.Helper()
	log := needsAudit(t)
	needsTime(t)
	from := log.mark(t)
	end := time.NewTimer(fullSilence)
	defer end.Stop()
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	for over := false; !over; {
		select {
		case <-end.C:
			over = true
		case <-look.C:
		}
		upTo := log.mark(t)
		for _, name := range operators {
			require.Empty(t, slices.DeleteFunc(log.since(t, from, name), allowed), "requests of an operator that had settled")
		}
		from = upTo
	}
}

// needsTime finds that a scenario may wait ten seconds.
func needsTime(t *testing.T) {
	t.Helper()
	id, _, _ := strings.Cut(strings.TrimPrefix(t.Name(), "Test"), "_")
	require.Contains(t, late(), id, "the scenarios that wait for silence")
}

// field returns a field of a child as the API server has it, nil if it isn't
// there.
func (s *stage) field(obj any, path ...string) any {
	s.t.Helper()
	live := s.Get(obj)
	require.NotNil(s.t, live, "%v", obj)
	value, _ := live.Field(path...)
	return value
}

// clients of somebody else: a person, another controller, the manager that is
// named.
func clients(t *testing.T, name string) (*kubernetes.Clientset, *dynamic.DynamicClient) {
	t.Helper()
	cfg := cluster.RESTConfig()
	cfg.UserAgent = name
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return acting{next, t.Name()} })
	typed, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	untyped, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	return typed, untyped
}

// manifest reads an object from YAML in flow style, where tabs are spaces.
func manifest(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", " ")), &out), text)
	return out
}

// childrenBy returns child types with the same strategy.
func childrenBy(strategy config.UpdateStrategy, types ...resource.Type) []config.Child {
	children := make([]config.Child, 0, len(types))
	for _, t := range types {
		children = append(children, config.Child{Type: t, Strategy: strategy})
	}
	return children
}

func lower(strategy config.UpdateStrategy) string { return strings.ToLower(string(strategy)) }

// creates returns the creates of children.
func (s *stage) creates() []testkit.Write {
	return slices.DeleteFunc(s.Writes(), func(w testkit.Write) bool { return w.Verb != "create" })
}

// undisturbed waits until every child that is wanted is there to stay (some are
// gone, to be created anew, only when a controller has let go of them), and
// then until nobody else has changed one for a while, so that controllers may
// have their say on what was created. One that has it later is no failure.
func (s *stage) undisturbed() {
	s.t.Helper()
	s.mu.Lock()
	count := s.mu.count
	s.mu.Unlock()
	eventually(s.t, "the children are there to stay", func() bool {
		here := 0
		for child := range s.Snapshot(s.it()).Children.All() {
			live := s.Get(child)
			if live == nil || live.IsDeleting() {
				return false
			}
			here++
		}
		return here >= count
	})
	// Each check reads every child, in hundreds of scenarios: with 20 ms that was a third of all requests.
	versions, since := "", time.Now()
	require.Eventually(s.t, func() bool {
		now := s.versions()
		if now != versions {
			versions, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second
	}, patience, 250*time.Millisecond, "the children come to rest")
	settle(s.t, s.Kit)
}

// versions returns the UID and resourceVersion of every child.
func (s *stage) versions() string {
	s.t.Helper()
	var b strings.Builder
	for child := range s.Snapshot(s.it()).Children.All() {
		if live := s.Get(child); live != nil {
			fmt.Fprintln(&b, live.UID(), live.ResourceVersion())
		} else {
			fmt.Fprintln(&b, child, "is gone")
		}
	}
	return b.String()
}

// typedDeployment is what most handlers return: a struct with its zero values.
func typedDeployment() *appsv1.Deployment {
	labels := map[string]string{"app": "typed"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "typed"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}}},
			},
		},
	}
}

func configMapNamed(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
