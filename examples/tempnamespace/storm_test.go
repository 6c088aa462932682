package main

import (
	"testing"

	"github.com/roperator/roperator/handler/failable"
	"github.com/roperator/roperator/testkit"
)

// TestStorm holds that a Namespace is there for its time and gone after it, whatever goes wrong on
// the way.
func TestStorm(t *testing.T) {
	testkit.Storm(t, operator, failable.Wrap(tempNamespaces{}, options), testkit.Faults{}, func(s *testkit.Scenario) {
		s.CRDs("crd.yaml")
		s.Create(object("short", map[string]any{"deleteAfter": "30s"}))
		s.Create(object("long", map[string]any{"deleteAfter": "24h"}))
		s.Create(object("dropped", map[string]any{"deleteAfter": "24h"}))
		s.Delete(object("dropped", nil))
	})
}
