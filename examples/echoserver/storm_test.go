package main

import (
	"testing"

	"github.com/roperator/roperator/testkit"
)

// TestStorm holds that the operator ends where it should, whatever goes wrong on the way.
func TestStorm(t *testing.T) {
	testkit.Storm(t, operator, echoServers, testkit.Faults{}, twoServers(t))
}

// TestStormOn is TestStorm on a real API server, which has a schema and defaults.
func TestStormOn(t *testing.T) {
	if cluster == nil {
		t.Skip("needs an API server")
	}
	testkit.StormOn(t, cluster, operator, echoServers, testkit.Faults{}, twoServers(t))
}

func twoServers(t *testing.T) func(s *testkit.Scenario) {
	t.Helper()
	another := sample(t, map[string]any{"serviceName": "another", "servicePort": 80})
	another["metadata"] = map[string]any{"name": "another"}
	return func(s *testkit.Scenario) {
		s.CRDs("crd.yaml")
		s.Create(sample(t, nil))
		s.Update(sample(t, map[string]any{"serviceName": "renamed", "servicePort": 8080}))
		s.Create(another)
		s.Delete(sample(t, nil))
	}
}
