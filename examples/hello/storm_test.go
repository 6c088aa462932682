package main

import (
	"testing"

	"github.com/roperator/roperator/testkit"
)

// TestStorm holds that the operator ends where it should, whatever goes wrong on the way.
func TestStorm(t *testing.T) {
	another := world(1)
	another.Name = "another"
	testkit.Storm(t, operator, hellos, testkit.Faults{}, func(s *testkit.Scenario) {
		s.CRDs("crd/fraim.co.jp_helloes.yaml")
		s.Create(world(2))
		s.Create(another)
		s.Update(world(3))
		s.Delete(another)
	})
}
