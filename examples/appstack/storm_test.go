package main

import (
	"testing"

	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// TestStorm holds that database, migration and app end as they should, whatever goes wrong on the
// way.
func TestStorm(t *testing.T) {
	testkit.Storm(t, operator, appStacks, testkit.Faults{}, func(s *testkit.Scenario) {
		s.CRDs("crd.yaml")
		s.Controller(k8s.Service, func(service map[string]any) {
			service["status"] = map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.1"}}}}
		})
		other := shop("1.0")
		other.Name = "other"
		s.Create(object(shop("1.0")))
		s.Create(object(other))
		s.Update(object(shop("2.0")))
		s.Delete(object(other))
	})
}
