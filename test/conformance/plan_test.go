package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// plan plans what a build would do for the stage's parent.
func (s *stage) plan(cfg config.Operator) ([]runner.Change, error) {
	s.t.Helper()
	s.silence.acts() // a plan makes requests as the operator
	return planFor(s.t, s.Kit, cfg, handler.SyncFunc(s.sync), s.it())
}

// planFor plans within the bounds of a Kit, as which the parent was created.
func planFor(t *testing.T, kit *testkit.Kit, cfg config.Operator, h handler.Handler, parent any) (changes []runner.Change, err error) {
	t.Helper()
	live := kit.Get(parent)
	require.NotNil(t, live)
	if cfg.Namespaces = []string{kit.Namespace}; live.Namespace() == "" {
		cfg.Namespaces = nil
		for label, value := range live.Labels() {
			if value == kit.Namespace { // by which the Kit knows its own
				cfg.ParentSelector = label + "=" + value
			}
		}
		require.NotEmpty(t, cfg.ParentSelector)
	}
	err = insist(func() (err error) {
		changes, err = runner.Plan(t.Context(), cfg, h, runner.Options{RESTConfig: cluster.RESTConfig()})
		return err
	})
	return changes, err
}

// said returns "verb Kind name" for each change, with the paths of the fields.
func said(changes []runner.Change) []string {
	var lines []string
	for _, c := range changes {
		line := fmt.Sprintf("%s %s %s", c.Verb, c.Type.Kind, c.Object.Name)
		for _, f := range c.Fields {
			if f.Path != "" {
				line += " " + f.Path
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// fleetOf is a handler whose parents have a Pod that admission changes, a
// Deployment spelled otherwise than it is stored, and a ConfigMap.
func fleetOf(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	name := req.Parent.Name()
	of := func(format string) map[string]any {
		var object map[string]any
		if err := json.Unmarshal(fmt.Appendf(nil, format, name), &object); err != nil {
			return nil
		}
		return object
	}
	return &handler.SyncResponse{
		Status: map[string]any{"phase": "Fine"},
		Children: []any{
			of(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s"},"spec":{"tolerations":[{"key":"own","operator":"Exists"}],
				"containers":[{"name":"main","image":"example.com/app","env":[{"name":"E","value":""}],"resources":{"limits":{"cpu":"1000m","memory":"1024Mi"}}}]}}`),
			of(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"%s","creationTimestamp":null},"status":{},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},
				"template":{"metadata":{"creationTimestamp":null,"labels":{"a":"b"}},"spec":{"containers":[{"name":"main","image":"i","resources":{"limits":{"cpu":"1000m"}}}]}}}}`),
			configMap(name, "k", "v"),
		},
	}, nil
}

func TestC74_RestartWithEverythingConverged(t *testing.T) {
	scenario(t, "C74", "restart with everything converged, normalized Pods under Recreate included: zero persisted writes, one pass a parent, and the plan is empty")
	log := needsAudit(t)
	const parents = 10
	cfg := operator("c74",
		config.Child{Type: k8s.Pod, Strategy: config.Recreate},
		config.Child{Type: k8s.Deployment, Strategy: config.Replace},
		config.Child{Type: k8s.ConfigMap, Strategy: config.Apply},
	)
	cfg.Finalizer = config.FinalizerAlways
	h := handler.Funcs{SyncFunc: fleetOf, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return &handler.FinalizeResponse{Finalized: true}, nil
	}}
	kit := testkit.New(t, cluster, cfg, h)
	for i := range parents {
		kit.Create(parent(fmt.Sprint("p", i), nil))
	}
	settle(t, kit)
	before := map[string]types.UID{}
	passes := 0
	for i := range parents {
		pod := kit.Get(manifest(t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: p%d}}`, i)))
		tolerations, _ := pod.Field("spec", "tolerations")
		require.Greater(t, len(tolerations.([]any)), 1, "admission has added some")
		before[pod.Name()] = pod.UID()
		passes += kit.Syncs(parent(fmt.Sprint("p", i), nil))
	}
	if cluster.HasControllerManager() { // which says in the status what it thinks of each Deployment
		for i := range parents {
			kit.Eventually(manifest(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: p%d}, status: {observedGeneration: 1}}`, i)), patience)
		}
		settle(t, kit)
	}
	kit.Stop()
	versions := func() (all []string) { // of what a controller may change at any time
		for i := range parents {
			all = append(all, kit.Get(manifest(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: p%d}}`, i))).ResourceVersion())
		}
		return all
	}

	from := log.mark(t)
	changes, err := planFor(t, kit, cfg, h, parent("p0", nil))
	require.NoError(t, err)
	require.Empty(t, said(changes))
	passes = 0
	undisturbed := versions()
	for i := range parents {
		passes -= kit.Syncs(parent(fmt.Sprint("p", i), nil))
	}
	kit.Restart(cfg, h)
	settle(t, kit)
	for i := range parents {
		passes += kit.Syncs(parent(fmt.Sprint("p", i), nil))
		pod := kit.Get(manifest(t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: p%d}}`, i)))
		require.Equal(t, before[pod.Name()], pod.UID())
	}
	if slices.Equal(undisturbed, versions()) {
		require.Equal(t, parents, passes, "one pass a parent")
	}
	for _, r := range log.since(t, from, cfg.Name) {
		require.False(t, r.persists(), "%s", r)
	}
}

func TestC74b_PlanIsWhatIsDone(t *testing.T) {
	scenario(t, "C74b", "a plan of a new build writes nothing, and says what that build then does")
	log := needsAudit(t)
	cfg := operator("c74-plan",
		config.Child{Type: k8s.ConfigMap, Strategy: config.Replace},
		config.Child{Type: k8s.Secret, Strategy: config.Apply},
		config.Child{Type: k8s.Pod, Strategy: config.Recreate},
		config.Child{Type: k8s.PodTemplate, Strategy: config.OnDelete},
		config.Child{Type: k8s.Service, Strategy: config.Replace, Adopt: true},
	)
	s := newStageWith(t, cfg, testkit.KitOptions{})
	pod := func(cpu, image string) map[string]any {
		return manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [
			{name: main, image: `+image+`, resources: {limits: {cpu: `+cpu+`}}}], terminationGracePeriodSeconds: 0}}`)
	}
	secret := func(name, value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"password": value}}
	}
	template := func(image string) map[string]any {
		return manifest(t, `{apiVersion: v1, kind: PodTemplate, metadata: {name: one}, template: {spec: {containers: [{name: main, image: `+image+`}]}}}`)
	}
	service := manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: adopted}, spec: {ports: [{port: 80}]}}`)
	labelled := configMap("labelled", "k", "v")
	labelled["metadata"].(map[string]any)["labels"] = map[string]any{"gone": "soon"}
	s.want(configMap("one", "k", "v"), configMap("gone", "k", "v"), labelled, secret("one", "old-value"), pod("1000m", "a"), template("a"))
	s.Stop()
	typed, _ := clients(t, "hands")
	_, err := typed.CoreV1().Services(s.Namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "adopted"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 81}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	s.mu.Lock()
	s.mu.wanted = func(*handler.SyncRequest) *handler.SyncResponse {
		return &handler.SyncResponse{Status: map[string]any{"phase": "Fine"}, Children: []any{
			configMap("one", "k", "new"), configMap("two", "k", "v"), configMap("labelled", "k", "v"),
			secret("one", "new-value"), secret("two", "other-value"), pod("1000m", "b"), template("b"), service,
		}}
	}
	s.mu.Unlock()
	// A Pod's image may be changed, which Recreate doesn't.
	want := []string{
		"update ConfigMap labelled metadata.labels.gone",
		"update ConfigMap one data.k",
		"create ConfigMap two",
		"update Secret one data.password",
		"create Secret two",
		`recreate Pod one spec.containers[name="main"].image`,
		"update Service adopted metadata.labels metadata.ownerReferences spec.ports",
		"delete ConfigMap gone",
	}
	versions, from := s.versions(), log.mark(t)
	changes, err := s.plan(cfg)
	require.NoError(t, err)
	got := said(changes)
	slices.Sort(got)
	sorted := slices.Sorted(slices.Values(want))
	for i := range got { // of a list that is compared by items, or of one of its items
		got[i], sorted[i] = cutPorts(got[i]), cutPorts(sorted[i])
	}
	require.Equal(t, sorted, got)
	raw, err := json.Marshal(changes)
	require.NoError(t, err)
	for _, value := range []string{"old-value", "new-value", "other-value", "b2xkLXZhbHVl", "bmV3LXZhbHVl"} {
		require.NotContains(t, string(raw), value, "a Secret's")
	}
	for _, r := range log.since(t, from, cfg.Name) {
		require.False(t, r.persists(), "%s", r)
	}
	require.Equal(t, versions, s.versions())

	done := len(s.Writes())
	s.Restart(cfg, handler.SyncFunc(s.sync))
	settle(t, s.Kit)
	require.Empty(t, s.errors())
	wrote := map[string]bool{}
	for _, w := range s.Writes()[done:] {
		if w.Type != parentType {
			wrote[w.Type.Kind+" "+w.Key.Name] = true
		}
	}
	planned := map[string]bool{}
	for _, c := range changes {
		planned[c.Type.Kind+" "+c.Object.Name] = true
	}
	require.Equal(t, planned, wrote)
	changes, err = s.plan(cfg)
	require.NoError(t, err)
	require.Empty(t, said(changes), "nothing is left")
}

func cutPorts(line string) string {
	head, _, _ := strings.Cut(line, " spec.ports")
	return head
}

func TestC75_Pause(t *testing.T) {
	scenario(t, "C75", "the pause annotation stops Sync for a parent, its deletion and other parents aside, and taking it off makes up for what was missed")
	kit := testkit.New(t, cluster, operator("c75", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}), handler.SyncFunc(copier))
	paused := func(name, value string, pause bool) map[string]any {
		p := parent(name, withData("k", value))
		if pause {
			p["metadata"].(map[string]any)["annotations"] = map[string]any{"roperator.com/paused": "true"}
		}
		return p
	}
	kit.Create(paused("one", "a", false))
	kit.Create(paused("never", "a", true))
	settle(t, kit)
	require.Nil(t, kit.Get(configMap("never", "", "")), "created paused")
	kit.Update(paused("one", "b", true))
	settle(t, kit)
	syncs := kit.Syncs(paused("one", "", true))
	live := kit.Get(configMap("one", "", ""))
	require.NotNil(t, live)
	kit.Delete(configMap("one", "", ""))
	kit.Create(paused("other", "c", false))
	kit.EventuallyExists(configMap("other", "k", "c"), patience)
	settle(t, kit)
	require.Nil(t, kit.Get(configMap("one", "", "")), "a deleted child isn't brought back")
	require.Equal(t, syncs, kit.Syncs(paused("one", "", true)))

	typed := paused("one", "b", false)
	typed["metadata"].(map[string]any)["annotations"] = map[string]any{"roperator.com/paused": "false"}
	kit.Update(typed)
	kit.Eventually(configMap("one", "k", "b"), patience)
	settle(t, kit)
	kit.Delete(paused("never", "", true))
	kit.EventuallyGone(paused("never", "", true), patience)
}
