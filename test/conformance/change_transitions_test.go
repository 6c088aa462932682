package conformance

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
)

// A transition is what an object shall be, one state after the other. After
// each it must be what the API server makes of an object that is created so.
type transition struct {
	reason string
	head   string // what all states have in common, with %s for the rest
	states []string
}

const (
	aPodTemplate = `apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {metadata: {labels: {app: one}}, spec: {
		containers: [{name: main, image: example.com/app}]}}, %s}`
	aDeployment = `apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, selector: {matchLabels: {app: one}}, %s}`
	aPodSpec    = `apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {metadata: {labels: {app: one}}, spec: {%s}}}`
	aContainer  = `apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {metadata: {labels: {app: one}}, spec: {
		volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}], containers: [{name: main, image: example.com/app, %s}]}}}`
	aService     = `apiVersion: v1, kind: Service, spec: {%s}`
	aStatefulSet = `apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {metadata: {labels: {app: one}}, spec: {
		containers: [{name: main, image: example.com/app}]}}, %s}`
	aDaemonSet = `apiVersion: apps/v1, kind: DaemonSet, spec: {selector: {matchLabels: {app: one}}, template: {metadata: {labels: {app: one}}, spec: {
		containers: [{name: main, image: example.com/app}]}}, %s}`
	aJob = `apiVersion: batch/v1, kind: Job, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.com/app}]}}, %s}`
	main = `containers: [{name: main, image: example.com/app}]`
)

func TestC30g_Transitions(t *testing.T) {
	scenario(t, "C30g", "whatever it was before, a child becomes what a new one would be")
	checkTransitions(t, "c30-pods", podTransitions())
}

func TestC30h_TransitionsOfOtherKinds(t *testing.T) {
	scenario(t, "C30h", "whatever it was before, a child becomes what a new one would be: Services, ConfigMaps and other kinds")
	checkTransitions(t, "c30-kinds", otherTransitions())
}

// checkTransitions makes every transition with an operator for each strategy.
func checkTransitions(t *testing.T, name string, table map[string]transition) {
	t.Helper()
	checkTransitionsBy(t, name, table, config.Replace, config.Apply)
}

func checkTransitionsBy(t *testing.T, name string, table map[string]transition, strategies ...config.UpdateStrategy) {
	t.Helper()
	var types []resource.Type
	for key, tr := range table {
		child := tr.state(t, key, 0)
		of := typeOf(child)
		if !slices.Contains(types, of) {
			types = append(types, of)
		}
	}
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, name+"-"+lower(strategy), childrenBy(strategy, types...)...)
			_, untyped := clients(t, "somebody")
			told := 0
			for i := range longest(table) {
				var want []any
				for _, key := range slices.Sorted(maps.Keys(table)) {
					want = append(want, table[key].state(t, key, i))
				}
				s.ask(want...)
				settle(t, s.Kit)
				assert.Empty(t, s.errors()[told:], "state %d", i)
				told = len(s.errors())
				for _, key := range slices.Sorted(maps.Keys(table)) {
					child := table[key].state(t, key, i)
					of := typeOf(child)
					live := s.Get(child)
					require.NotNil(t, live, "%s: state %d", key, i)
					fresh := s.dryCreate(untyped, of, child)
					if !assert.Equal(t, alike(fresh.Object), alike(live.Unstructured().Object)) {
						t.Errorf("%s: state %d: %s", key, i, table[key].reason)
					}
				}
			}
			s.undisturbed()
			s.silent()
			s.restart()
		})
	}
}

func longest(table map[string]transition) int {
	n := 0
	for _, tr := range table {
		n = max(n, len(tr.states))
	}
	return n
}

// state returns the i-th state, or the last one.
func (tr transition) state(t *testing.T, name string, i int) map[string]any {
	t.Helper()
	text := "{" + strings.Replace(tr.head, "%s", tr.states[min(i, len(tr.states)-1)], 1) + "}"
	child := manifest(t, strings.ReplaceAll(strings.ReplaceAll(text, ", }", "}"), ", ]", "]"))
	meta, _ := child["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = strings.ReplaceAll(strings.ToLower(name), " ", "-")
	child["metadata"] = meta
	return child
}
