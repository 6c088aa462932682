package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/testkit"
)

// TestStorm holds that the copies end as their source is, in the namespaces that are selected,
// whatever goes wrong on the way.
func TestStorm(t *testing.T) {
	namespace := func(name, copies string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"copies": copies}}}
	}
	source := func(mirror string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "registry", Namespace: "platform"}, Data: map[string]string{"mirror": mirror}}
	}
	syncs := object("registry", map[string]any{
		"source":            map[string]any{"namespace": "platform", "name": "registry"},
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"copies": "yes"}},
	})
	testkit.Storm(t, operator, configSyncs, testkit.Faults{}, func(s *testkit.Scenario) {
		s.CRDs("crd.yaml")
		s.Create(namespace("platform", "no"))
		s.Create(source("one.example.com"))
		s.Create(namespace("first", "yes"))
		s.Create(syncs)
		s.Create(namespace("second", "yes"))
		s.Update(source("two.example.com"))
		s.Update(namespace("first", "no"))
	})
}
