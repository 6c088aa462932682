package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/testkit"
)

// TestStorm holds that each Pod has its Service in the end, whatever goes wrong on the way.
func TestStorm(t *testing.T) {
	set := sample(t, 2, "true")
	set.UID = "uid-of-web"
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set.Spec.Template.Labels},
			Spec:       set.Spec.Template.Spec,
		}
	}
	testkit.Storm(t, operator, decorator, testkit.Faults{}, func(s *testkit.Scenario) {
		s.Create(sample(t, 2, "true"))
		s.Create(pod("web-0"))
		s.Create(pod("web-1"))
	})
}
