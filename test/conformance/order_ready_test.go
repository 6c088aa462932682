package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

func TestC100_NeverReadyTooEarly(t *testing.T) {
	scenario(t, "C100", "ReadyCondition: at no resourceVersion between a change of the spec and the end of its rollout is Ready True for the new generation, whether children roll one by one or all at once, over a restart too")
	for name, roll := range map[string]*config.Roll{"roll": {MaxUnavailable: "2"}, "at-once": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlotilla(t, flotillaOperator("c100-"+name, roll))
			for i, version := range []string{"1", "2", "broken", "3"} {
				f.sail(version)
				if i == 1 {
					f.Restart(f.cfg, handler.SyncFunc(ships)) // in the middle
				}
				if version == "broken" {
					eventually(t, "a child is given up", func() bool {
						c, now := conditionNow(f.Get(parent("one", nil)), "Stalled")
						return now && c.Status == metav1.ConditionTrue
					})
					continue
				}
				f.arrives(version)
			}
			settle(t, f.Kit)
			require.Positive(t, neverReadyTooEarly(t, f.seen.until(t, f.Get(parent("one", nil)))))
			quiet(t, f.cfg.Name)
		})
	}
}

// neverReadyTooEarly requires that whenever the parent is Ready at its generation, all children
// have its version and are Current. It returns how often the parent is.
func neverReadyTooEarly(t *testing.T, entries []entry) (ready int) {
	t.Helper()
	live := map[string]*resource.Resource{}
	for _, e := range entries {
		if e.object.Type() == k8s.Deployment {
			live[e.object.Name()] = e.object
			continue
		}
		if !isReadyNow(e.object) {
			continue
		}
		ready++
		version, _ := e.object.Field("spec", "version")
		for i := range shipCount {
			d := live[ship(i, "").Name]
			require.NotNil(t, d)
			require.Equal(t, version, versionOf(d), "%s at %d", d.Name(), e.version)
			require.Equal(t, readiness.Current, readiness.Of(d).State, "%s at %d", d.Name(), e.version)
		}
	}
	return ready
}

// kubectl returns the output of a command of kubectl.
func kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := exec.LookPath("kubectl")
	if err != nil {
		program = filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	}
	if _, err := os.Stat(program); err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "kubectl is missing, and CI=true: no scenario may be skipped")
		t.Skip("needs kubectl, in PATH or beside kube-apiserver")
	}
	out, err := exec.CommandContext(t.Context(), program, append([]string{"--kubeconfig", cluster.Kubeconfig()}, args...)...).CombinedOutput()
	return string(out), err
}

func TestC101_KubectlAgrees(t *testing.T) {
	scenario(t, "C101", "ReadyCondition: kubectl wait --for=condition=Ready after a change of the spec that the API server has in its cache returns only when kubectl rollout status says of every child that it is rolled out; while the parent isn't Ready it times out")
	f := newFlotilla(t, flotillaOperator("c101", &config.Roll{}))
	_, untyped := clients(t, "kubectl")
	parents := untyped.Resource(plural(parentType)).Namespace(f.Namespace)
	// kubectl wait lists with resourceVersion 0: what it sees first may be older than the change that it is to wait for.
	wait := func(limit string) (string, error) {
		now := f.Get(parent("one", nil)).Generation()
		eventually(t, "the API server's cache has the change", func() bool {
			list, err := parents.List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
			require.NoError(t, err)
			return len(list.Items) == 1 && list.Items[0].GetGeneration() == now
		})
		return kubectl(t, "-n", f.Namespace, "wait", "--for=condition=Ready", "--timeout="+limit, "parents.conformance.roperator.com/one")
	}
	for _, version := range []string{"1", "2", "3"} {
		f.sail(version)
		out, err := wait("5m")
		require.NoError(t, err, out)
		for i := range shipCount {
			name := ship(i, "").Name
			out, err := kubectl(t, "-n", f.Namespace, "rollout", "status", "--watch=false", "deployment/"+name)
			require.NoError(t, err, out)
			require.Contains(t, out, "successfully rolled out")
			require.Equal(t, version, versionOf(f.Get(ship(i, ""))))
		}
	}
	f.sail("broken")
	out, err := wait("4s")
	require.Error(t, err)
	require.Contains(t, out, "timed out")
	out, err = kubectl(t, "-n", f.Namespace, "wait", "--for=condition=Stalled", "--timeout=5m", "parents.conformance.roperator.com/one")
	require.NoError(t, err, out)
	out, err = kubectl(t, "-n", f.Namespace, "rollout", "status", "--watch=false", "deployment/"+ship(0, "").Name)
	require.Error(t, err)
	require.Contains(t, out, "exceeded its progress deadline")
}

// stands waits for a condition of the parent to be True with a message that has the given text.
func stands(t *testing.T, kit *testkit.Kit, name, reason, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is True: %s: %s", name, reason, text), func() bool {
		c, now := conditionNow(kit.Get(parent("one", nil)), name)
		ready, _ := conditionNow(kit.Get(parent("one", nil)), "Ready")
		return now && c.Status == metav1.ConditionTrue && c.Reason == reason && strings.Contains(c.Message, text) &&
			ready.Status == metav1.ConditionFalse && ready.Reason == reason && ready.Message == c.Message
	})
}

func TestC103_WhatIsInTheWay(t *testing.T) {
	scenario(t, "C103", "ReadyCondition: a refused write, a pause, an invalid response and a permanent error are Stalled, a wait and a failed handler Reconciling, each named in the message, in the one status write, and over once it is over")
	cfg := operator("c103", deploymentAndConfigMap()...)
	cfg.ReadyCondition = true
	s := newStageWith(t, cfg, testkit.KitOptions{})
	good := configMap("one", "a", "b")
	ready := func() {
		t.Helper()
		s.ask(good)
		eventually(t, "it is Ready", func() bool { return isReadyNow(s.Get(s.it())) })
		settle(t, s.Kit)
	}
	ready()

	s.ask(good, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "Not a name"}})
	stands(t, s.Kit, "Stalled", "WriteRefused", "ConfigMap "+s.Namespace+"/Not a name: create: ")
	ready()
	s.ask(good, handler.When(configMapNamed("late"), false))
	stands(t, s.Kit, "Reconciling", "Waiting", "not creating ConfigMap late before the handler's own condition for it is met")
	ready()
	need := typedDeployment()
	*need.Spec.Replicas = 1
	s.ask(good, need, handler.After(configMapNamed("late"), need))
	stands(t, s.Kit, "Reconciling", "ChildNotReady", "Deployment "+s.Namespace+"/typed: ")
	ready()
	s.ask(good, handler.After(good, good))
	stands(t, s.Kit, "Stalled", "InvalidResponse", "invalid response: ")
	ready()

	it := s.Get(s.it()).Unstructured().Object
	it["metadata"].(map[string]any)["annotations"] = map[string]any{"roperator.com/paused": "true"}
	s.Update(it)
	stands(t, s.Kit, "Stalled", "Paused", "paused by the annotation roperator.com/paused")
	settle(t, s.Kit)
	s.silent()
	require.True(t, anyContains(s.Events(s.it()), "Paused", "roperator.com/paused"))
	it = s.Get(s.it()).Unstructured().Object
	it["metadata"].(map[string]any)["annotations"] = map[string]any{"roperator.com/paused": "false"}
	s.Update(it)
	ready()
	s.restart()
	s.silent()
}

func TestC103b_FailedHandler(t *testing.T) {
	scenario(t, "C103b", "ReadyCondition: a handler that fails without a response is told all the same, and so is a conflict loop")
	cfg := operator("c103-failed", configMapChild())
	cfg.ReadyCondition = true
	var mode atomic.Value
	mode.Store("fail")
	var calls atomic.Int64
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		switch mode.Load() {
		case "fail":
			return nil, errors.New("no database")
		case "permanent":
			return nil, handler.Permanent(errors.New("no such plan"))
		case "loop":
			return &handler.SyncResponse{Children: []any{configMap("one", "call", fmt.Sprint(calls.Add(1)))}}, nil
		}
		return &handler.SyncResponse{Children: []any{configMap("one", "call", "none")}}, nil
	}))
	ask := func(to string) {
		mode.Store(to)
		if it := parent("one", map[string]any{"mode": to}); to == "fail" {
			kit.Create(it)
		} else {
			kit.Update(it)
		}
	}
	ask("fail")
	stands(t, kit, "Reconciling", "HandlerFailed", "handler: Sync: no database")
	require.ErrorContains(t, kit.HandlerErrors(parent("one", nil))[0], "no database")
	ask("permanent")
	stands(t, kit, "Stalled", "HandlerFailed", "handler: Sync: no such plan")
	ask("loop")
	stands(t, kit, "Stalled", "ConflictLoop", "somebody undoes what the operator writes")
	ask("good")
	eventually(t, "it is Ready", func() bool { return isReadyNow(kit.Get(parent("one", nil))) })
}

func TestC103c_RefusedStatus(t *testing.T) {
	scenario(t, "C103c", "ReadyCondition: a status that the API server refuses leaves the one of before, whose conditions say so; that is written once, and over once it is over")
	const group = "c103-status.roperator.com"
	crd := thingCRD(t, group, `{type: object, x-kubernetes-preserve-unknown-fields: true}`)
	version := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	version["schema"] = map[string]any{"openAPIV3Schema": manifest(t, `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true},
		status: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {phase: {type: string}}}}}`)}
	installCRD(t, group, crd)
	cfg := operator("c103-status", configMapChild())
	cfg.Parent, cfg.ReadyCondition = thingOf(group), true
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		phase, _ := req.Parent.Field("spec", "phase")
		return &handler.SyncResponse{Status: map[string]any{"phase": phase}, Children: []any{configMap("one", "phase", fmt.Sprint(phase))}}, nil
	}))
	says := func(phase string, status metav1.ConditionStatus, reason, text string) {
		t.Helper()
		eventually(t, reason, func() bool {
			live := kit.Get(thing(t, group, "{}"))
			is, _ := live.Field("status", "phase")
			c, ok := conditionNow(live, "Ready")
			return ok && is == phase && c.Status == status && c.Reason == reason && strings.Contains(c.Message, text)
		})
	}
	kit.Create(thing(t, group, "{phase: Fine}"))
	says("Fine", metav1.ConditionTrue, "Ready", "")
	kit.Update(thing(t, group, "{phase: 5}"))
	says("Fine", metav1.ConditionFalse, "WriteRefused", "status.phase")
	settle(t, kit)
	told := kit.Get(thing(t, group, "{}")).ResourceVersion()
	during(t, 3*time.Second)
	require.Equal(t, told, kit.Get(thing(t, group, "{}")).ResourceVersion())
	failing(t, kit, thing(t, group, "{}"), "status.phase")
	kit.Update(thing(t, group, "{phase: Better}"))
	says("Better", metav1.ConditionTrue, "Ready", "")
}

func TestC125_AllOfItSilent(t *testing.T) {
	scenario(t, "C125", "a settled parent with ReadyCondition, gates, Roll, RecreateImmutable, Retain and an ordered teardown is silent, and a restart finds nothing to do")
	needsControllerManager(t)
	cfg := operator("c125", childrenBy(config.Replace, k8s.PersistentVolumeClaim, k8s.ConfigMap, k8s.Deployment)...)
	cfg.ReadyCondition, cfg.Teardown = true, config.TeardownOrdered
	cfg.Children[0].Retain = true
	cfg.Children[1].RecreateImmutable, cfg.Children[1].Roll = true, &config.Roll{}
	cfg.Children[2].Roll = &config.Roll{MaxUnavailable: "25%", Partition: "spec.updated"}
	s := newStageWith(t, cfg, testkit.KitOptions{})
	playKubelet(t, s.Namespace)
	s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
		first, second := ship(0, "1"), ship(1, "1")
		return &handler.SyncResponse{Children: []any{
			first, handler.After(second, first), handler.After(configMapNamed("late"), second), configMapNamed("early"),
		}}
	})
	eventually(t, "it is Ready", func() bool { return isReadyNow(s.Get(s.it())) })
	settle(t, s.Kit)
	s.silent()
	s.restart()
	s.silent()
}
