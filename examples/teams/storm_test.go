package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/testkit"
)

// TestStorm holds that each Namespace of a team has its quota in the end, and others have none,
// whatever goes wrong on the way.
func TestStorm(t *testing.T) {
	namespace := func(name, team string) *corev1.Namespace {
		out := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if team != "" {
			out.Labels = map[string]string{"team": team}
		}
		return out
	}
	testkit.Storm(t, operator, quotas, testkit.Faults{}, func(s *testkit.Scenario) {
		s.Create(namespace("shop", "a"))
		s.Create(namespace("blog", ""))
		s.Create(namespace("old", "b"))
		s.Update(namespace("blog", "b"))
		s.Delete(namespace("old", ""))
	})
}
