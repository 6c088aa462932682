package conformance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource/k8s"
)

// deploymentAndConfigMap are the child types of these scenarios. ConfigMaps come first.
func deploymentAndConfigMap() []config.Child {
	return []config.Child{configMapChild(), {Type: k8s.Deployment, Strategy: config.Replace}}
}

// conditionsOf returns the conditions of the stage's parent, by type.
func (s *stage) conditionsOf() map[string]metav1.Condition {
	s.t.Helper()
	type parent struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	var it parent
	require.NoError(s.t, s.Get(s.it()).Decode(&it))
	out := map[string]metav1.Condition{}
	for _, c := range it.Status.Conditions {
		out[c.Type] = c
	}
	return out
}

// The time of a condition is that of its last transition, whatever else changes, and over a
// restart.
func TestC102_ConditionTimes(t *testing.T) {
	scenario(t, "C102", "a condition that the handler states without a time keeps its time while its status is the same, over changes of the spec and a restart, and costs no write; it gets a new one with another status")
	s := newStage(t, "c102", configMapChild())
	saying := func(status metav1.ConditionStatus, data string) {
		s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
			return &handler.SyncResponse{
				Status:   map[string]any{"conditions": []metav1.Condition{{Type: "Live", Status: status, Reason: "Asked"}}},
				Children: []any{configMap("one", "data", data)},
			}
		})
		settle(t, s.Kit)
		require.Empty(t, s.errors())
	}
	saying(metav1.ConditionTrue, "a")
	first := s.conditionsOf()["Live"]
	require.Equal(t, metav1.ConditionTrue, first.Status)
	require.EqualValues(t, 1, first.ObservedGeneration)
	require.WithinDuration(t, time.Now(), first.LastTransitionTime.Time, patience)
	eventually(t, "another second", func() bool { return time.Since(first.LastTransitionTime.Time) > 2*time.Second })

	saying(metav1.ConditionTrue, "b")
	require.EqualValues(t, 2, s.conditionsOf()["Live"].ObservedGeneration)
	require.Equal(t, first.LastTransitionTime, s.conditionsOf()["Live"].LastTransitionTime)
	s.restart()
	require.Equal(t, first.LastTransitionTime, s.conditionsOf()["Live"].LastTransitionTime)
	s.silent()

	saying(metav1.ConditionFalse, "b")
	require.True(t, s.conditionsOf()["Live"].LastTransitionTime.After(first.LastTransitionTime.Time))
}

// A gate opens when what it waits for is rolled out, by the word of the Deployment's own
// controller.
func TestC104_GateOpens(t *testing.T) {
	scenario(t, "C104", "a child is created once the Deployment that it needs is rolled out, and not before; waiting is said once, costs no request and is no error")
	needsControllerManager(t)
	s := newStage(t, "c104", deploymentAndConfigMap()...)
	replicas := int32(1) // there is no node: it never becomes available
	s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
		need := typedDeployment()
		need.Spec.Replicas = &replicas
		return &handler.SyncResponse{Children: []any{handler.After(configMapNamed("late"), need), need}}
	})
	settle(t, s.Kit)
	require.Nil(t, s.Get(configMapNamed("late")))
	require.Equal(t, []string{"not creating ConfigMap late before Deployment typed is there and ready"}, s.Waits(s.it()))
	s.silent()

	s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
		need := typedDeployment() // no replicas
		return &handler.SyncResponse{Children: []any{handler.After(configMapNamed("late"), need), need}}
	})
	s.EventuallyExists(configMapNamed("late"), patience)
	settle(t, s.Kit)
	require.Empty(t, s.Waits(s.it()))
	require.Equal(t, readiness.Current, readiness.Of(s.Get(typedDeployment())).State)
	require.Empty(t, s.errors())
	texts := 0
	for _, event := range s.Events(s.it()) {
		if anyContains([]string{event}, "Normal", "not creating ConfigMap late") {
			texts++
		}
	}
	require.Equal(t, 1, texts)
	s.restart()
	s.silent()
}

// Readiness that comes and goes neither deletes nor freezes what is there.
func TestC105_GateClosesAndReopens(t *testing.T) {
	scenario(t, "C105", "a gate closes on a child that is there: it stays and follows its spec; deleted by hand it waits for the gate, and comes once that is open")
	needsControllerManager(t)
	s := newStage(t, "c105", deploymentAndConfigMap()...)
	ask := func(replicas int32, data string) {
		s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
			need := typedDeployment()
			need.Spec.Replicas = &replicas
			return &handler.SyncResponse{Children: []any{need, handler.After(configMap("late", "data", data), need)}}
		})
	}
	ask(0, "a")
	s.EventuallyExists(configMapNamed("late"), patience)
	settle(t, s.Kit)
	uid := s.Get(configMapNamed("late")).UID()

	ask(1, "b")
	s.Eventually(configMap("late", "data", "b"), patience)
	settle(t, s.Kit)
	require.Equal(t, readiness.InProgress, readiness.Of(s.Get(typedDeployment())).State)
	require.Equal(t, uid, s.Get(configMapNamed("late")).UID())

	s.Delete(configMapNamed("late"))
	settle(t, s.Kit)
	require.Nil(t, s.Get(configMapNamed("late")))
	require.NotEmpty(t, s.Waits(s.it()))
	ask(0, "c")
	s.Eventually(configMap("late", "data", "c"), patience)
	settle(t, s.Kit)
	require.Empty(t, s.errors())
}

func TestC106_InvalidGates(t *testing.T) {
	scenario(t, "C106", "children that need each other, and a need that is neither in the response nor related, are an invalid response: the error names the children, nothing is written")
	s := newStage(t, "c106", deploymentAndConfigMap()...)
	a, b, c := configMapNamed("a"), configMapNamed("b"), configMapNamed("c")
	s.ask(handler.After(a, b), handler.After(b, c), handler.After(c, a), configMapNamed("d"))
	failing(t, s.Kit, s.it(), "invalid response: handler.After: children need each other: ConfigMap "+s.Namespace+"/a needs ConfigMap "+s.Namespace+"/b needs ConfigMap "+s.Namespace+"/c needs ConfigMap "+s.Namespace+"/a")
	s.ask(handler.After(a, typedDeployment()), configMapNamed("d"))
	failing(t, s.Kit, s.it(), "Deployment "+s.Namespace+"/typed is neither a child of this response nor what the parent refers to (config.Operator.Related)")
	s.ask(handler.After(a, handler.Ref{Type: k8s.Secret, Name: "token"}))
	failing(t, s.Kit, s.it(), "Secret "+s.Namespace+"/token is neither")
	require.Empty(t, s.Writes())
	s.ask(handler.After(a, b), handler.After(b, c), c)
	s.EventuallyExists(a, patience) // the parent may have to wait for its backoff until then
	settle(t, s.Kit)
	require.Equal(t, []string{"c", "b", "a"}, created(s))
}

// created returns the names of what the stage's operator has created, in order.
func created(s *stage) (names []string) {
	for _, w := range s.creates() {
		names = append(names, w.Key.Name)
	}
	return names
}

func TestC107_ValueOfADependency(t *testing.T) {
	scenario(t, "C107", "a child that takes a value from the status of what it waits for is created with that value, in one write")
	needsControllerManager(t)
	s := newStage(t, "c107", deploymentAndConfigMap()...)
	s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
		need := typedDeployment()
		revision := "none"
		if live, ok := req.Children.Find(need); ok {
			if of, ok := live.Annotation("deployment.kubernetes.io/revision"); ok {
				revision = of
			}
		}
		return &handler.SyncResponse{Children: []any{need, handler.After(configMap("late", "revision", revision), need)}}
	})
	s.Eventually(configMap("late", "revision", "1"), patience)
	settle(t, s.Kit)
	require.Equal(t, []string{"create"}, verbs(s.Writes(), "ConfigMap", "late"))
}
