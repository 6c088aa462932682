package main

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/roperator/roperator/examples/starter/api/v1"
	"github.com/roperator/roperator/testkit"
)

// example returns a Site.
func example(replicas int32) *v1.Site {
	return &v1.Site{
		TypeMeta:   metav1.TypeMeta{APIVersion: operator.Parent.APIVersion, Kind: operator.Parent.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: "docs", Namespace: "default"},
		Spec:       v1.SiteSpec{Image: "example.com/docs:v1", Replicas: &replicas},
	}
}

// with returns a status with the condition Available.
func with(status metav1.ConditionStatus, reason string) v1.SiteStatus {
	return v1.SiteStatus{Conditions: []metav1.Condition{{Type: "Available", Status: status, Reason: reason}}}
}

// serving returns the status of a Deployment whose Pods are all at work.
func serving(generation int64, replicas int32) appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{
		ObservedGeneration: generation,
		Replicas:           replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
}

// A Site gets its children. Nothing else happens: what isn't expected fails the test.
func TestNewSite(t *testing.T) {
	testkit.Sync(t, operator, sites, example(2)).
		WantCreate(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "docs"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}}).
		WantCreate(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "docs"}}).
		WantStatus(with(metav1.ConditionFalse, "Starting"))
}

// The whole plan, in a file. `make golden` writes it anew.
func TestNewSite_Golden(t *testing.T) {
	testkit.Sync(t, operator, sites, example(2)).Golden("testdata/new-site.yaml")
}

func TestScaled(t *testing.T) {
	live := deployment(example(1))
	testkit.Sync(t, operator, sites, example(3), live, service(example(1))).
		WantUpdate(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "docs"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}}).
		WantStatus(with(metav1.ConditionFalse, "InProgress"))
}

func TestAvailable(t *testing.T) {
	live := deployment(example(1))
	live.Status = serving(0, 1)
	testkit.Sync(t, operator, sites, example(1), live, service(example(1))).
		WantStatus(with(metav1.ConditionTrue, "Serving"))
}

// Whatever goes wrong on the way (processes die, answers are lost, people interfere), a Site ends as it
// should. It runs 200 times, each time under other faults.
func TestStorm(t *testing.T) {
	another := example(1)
	another.Name = "blog"
	testkit.Storm(t, operator, sites, testkit.Faults{}, func(s *testkit.Scenario) {
		s.CRDs("deploy/example.com_sites.yaml")
		s.Create(example(2))
		s.Create(another)
		s.Update(example(3))
		s.Delete(another)
	})
}
