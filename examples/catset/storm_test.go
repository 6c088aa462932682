package main

import (
	"fmt"
	"testing"

	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// TestStorm holds that the cats end as they should, whatever goes wrong on the way.
func TestStorm(t *testing.T) {
	kittens := cats(t, 2, "example.com/cat:1")
	kittens.Name = "kittens"
	testkit.Storm(t, operator, catSets, testkit.Faults{}, func(s *testkit.Scenario) {
		s.CRDs("crd.yaml")
		s.Create(cats(t, 3, "example.com/cat:1"))
		s.Create(kittens)
		s.Update(cats(t, 2, "example.com/cat:2"))
		s.Delete(kittens)
		// A claim stays when its cat goes. A cat for which there was no time has none.
		s.IgnoreType(k8s.PersistentVolumeClaim)
		s.Finally(func(w testkit.World) error {
			for _, name := range []string{"bowl-cats-0", "bowl-cats-1"} {
				if !exists(w, name) {
					return fmt.Errorf("PersistentVolumeClaim %s is missing", name)
				}
			}
			return nil
		})
	})
}

func exists(w testkit.World, claim string) bool {
	for _, live := range w.List(k8s.PersistentVolumeClaim) {
		if live.Name() == claim && !live.IsDeleting() {
			return true
		}
	}
	return false
}
