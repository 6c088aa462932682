package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/view"
	"github.com/roperator/roperator/resource/k8s"
)

// A script is a window.Source that shows what a test says. It is safe for concurrent use.
type script struct {
	mu        sync.Mutex
	operators []string
	running   bool
	parents   []view.Parent
	figures   view.Figures
	family    view.Family
	known     bool
	explained explain.Explanation
	problem   string // of an explanation or a plan; empty: there is none
	planned   []view.Planned
	hold      chan struct{} // a plan waits after its first parent until it is closed; nil: it doesn't
	opened    int           // how often the parent was tapped
}

// at is when all of this happens.
func at() time.Time { return time.Now().Add(-90 * time.Second) }

// newScript returns a script with a parent in each state.
func newScript() *script {
	s := &script{operators: []string{"shops"}, running: true, known: true}
	for _, state := range []explain.State{
		explain.Settled, explain.Failing, explain.Waiting, explain.Throttled, explain.NotReady, explain.Pending, explain.Finalizing, explain.Paused, explain.NotSelected,
	} {
		name := "is-" + strings.ReplaceAll(string(state), " ", "-")
		s.parents = append(s.parents, view.Parent{Namespace: "shop", Name: name, State: state, Reason: "because of " + name, Since: at().Truncate(time.Second), Children: 3, LastPass: at().Truncate(time.Second)})
	}
	plots := (*journal.Journal)(nil).Plots(time.Now())
	plots.Passes[88], plots.Errors[87], plots.Queue[80], plots.P50[88], plots.P95[88] = 7, 2, 5, 12, 48
	plots.Writes["create"][88] = 4
	s.figures = view.Figures{
		Operator: "shops", Parent: "example.com/v1/Shop", Namespaced: true, Host: "pod-1", Started: at(), Leading: true, Synced: true, Workers: 16, Parents: 9, Plots: plots,
		Lease:   &view.Lease{Namespace: "system", Name: "shops", Identity: "pod-1_x", Held: true, Holder: "pod-1_x", Renewed: at()},
		Watches: []view.Watch{{Type: "example.com/v1/Shop", Role: "parent", Objects: 9, Bytes: 9000, Heard: at()}, {Type: "apps/v1/Deployment", Role: "child", Objects: 27, Problem: "list is forbidden"}},
	}
	s.family, s.explained = familyOf(""), explanationOf("")
	s.planned = []view.Planned{
		{Namespace: "shop", Name: "one", Changes: []plan.Change{
			{Parent: key("one"), Object: key("web"), Type: k8s.Deployment, Verb: "update", Fields: []plan.FieldChange{{Path: "spec.replicas", Live: int64(2), Desired: int64(5)}}},
			{Parent: key("one"), Object: key("old"), Type: k8s.ConfigMap, Verb: "delete"},
		}},
		{Namespace: "shop", Name: "quiet"},
		{Namespace: "shop", Name: "two", Error: "handler: Sync: no such plan"},
	}
	return s
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// familyOf returns what is known of a parent. Each text has evil in it.
func familyOf(evil string) view.Family {
	write := journal.Write{Object: journal.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}, Verb: "update", Millis: 8, Result: journal.Failed, Error: "refused" + evil, Fields: []string{"spec.replicas" + evil}, MoreFields: 3}
	written := journal.Write{Object: journal.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page"}, Verb: "create", Millis: 4, Result: journal.Written, Fields: []string{}}
	return view.Family{
		Version: "1" + evil,
		Process: explain.Process{From: "pod-1", Leading: true, Held: true, Failures: 4, LastError: "refused" + evil, Throttled: true, Loop: &explain.Loop{
			Object: explain.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}, Path: "spec.replicas" + evil, Values: []string{"2", "5", "seven" + evil}, Writes: 12,
		}},
		Passes: []journal.Pass{
			{Number: 2, ID: "abcd1234", Start: at(), Millis: 30, Trigger: "Deployment shop/web" + evil, More: 2, Call: "Sync", CallMillis: 10, Error: "could not write" + evil, Throttled: true, Writes: []journal.Write{write, written}, MoreWrites: 5},
			{Number: 1, Start: at(), Millis: 2, Trigger: "first list", Call: "Sync", CallMillis: 1, Writes: []journal.Write{}},
		},
		Events: []journal.Event{{Time: at(), Type: "Warning", Reason: "SyncFailed", Message: "event text" + evil}},
	}
}

// explanationOf returns an explanation. Each text has evil in it.
func explanationOf(evil string) explain.Explanation {
	object := func(kind, name string) explain.Object {
		return explain.Object{APIVersion: "v1", Kind: kind, Namespace: "shop", Name: name}
	}
	then := at()
	return explain.Explanation{
		Operator: "shops",
		Parent: explain.Parent{
			Object: object("Shop", "one"), State: explain.Failing, Reason: "reason" + evil, Error: "no such plan" + evil, FailingSince: &then, Generation: 3, ObservedGeneration: 2,
			Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: "WriteFailed", Message: "condition text" + evil}},
		},
		Children: []explain.Child{
			{
				Object: object("Deployment", "web"), State: explain.Differs, Verb: "update", Readiness: "InProgress", ReadinessMessage: "0 of 2" + evil,
				Fields: []explain.Field{{Path: "spec.replicas" + evil, Live: 2, Desired: 5, By: &explain.Writer{Manager: "hpa" + evil, Operation: "Update", Time: &then}}},
			},
			{Object: object("ConfigMap", "later"), State: explain.WaitsFor, Reason: "waits" + evil, WaitsFor: []explain.Object{object("Deployment", "web")}},
			{Object: object("Secret", "gone"), State: explain.Missing, Verb: "create", Error: "exists already" + evil},
		},
		Related: []explain.Related{{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "keys", From: []string{"spec.secretName" + evil}, Found: []explain.Object{}}},
	}
}

// change changes the script.
func (s *script) change(do func(s *script)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s)
}

func (s *script) Operators() []string { return s.operators }

func (s *script) Overview(operator string) (view.Overview, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	figures := s.figures
	figures.Time, figures.Operator = time.Now(), operator
	return view.Overview{Parents: append([]view.Parent(nil), s.parents...), Figures: figures}, s.running
}

func (s *script) Family(string, types.NamespacedName) (view.Family, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.family, s.known
}

func (s *script) Explain(context.Context, string, types.NamespacedName, explain.Process) (explain.Explanation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem != "" {
		return explain.Explanation{}, errors.New(s.problem)
	}
	return s.explained, nil
}

func (s *script) Plan(ctx context.Context, _ string, found func(p view.Planned, parents int)) error {
	s.mu.Lock()
	planned, problem, hold := s.planned, s.problem, s.hold
	s.mu.Unlock()
	for i, p := range planned {
		found(p, len(planned))
		if i == 0 && hold != nil {
			select {
			case <-hold:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	if problem != "" {
		return errors.New(problem)
	}
	return nil
}

func (s *script) Tap(string, types.NamespacedName) func() {
	s.change(func(s *script) { s.opened++ })
	return func() {}
}

func (s *script) Record(_ context.Context, operator string, parent types.NamespacedName, to io.Writer) error {
	_, err := fmt.Fprintln(to, operator, parent)
	return err
}
