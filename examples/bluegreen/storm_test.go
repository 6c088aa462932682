package main

import (
	"fmt"
	appsv1 "k8s.io/api/apps/v1"
	"testing"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// TestStorm holds that the last version serves in the end, in whichever colour, and alone.
func TestStorm(t *testing.T) {
	testkit.Storm(t, operator, blueGreens, testkit.Faults{}, func(s *testkit.Scenario) {
		s.CRDs("crd.yaml")
		s.Create(object(web("1")))
		s.Update(object(web("2")))
		s.Update(object(web("3")))
		// Which colour has the last version depends on how many there were time for.
		s.IgnoreType(k8s.Deployment)
		s.IgnoreType(k8s.Service)
		s.Ignore("status", "active")
		s.Finally(func(w testkit.World) error {
			service := w.Get(web("").service(blue))
			if service == nil {
				return fmt.Errorf("there is no Service")
			}
			serves, _ := service.Field("spec", "selector", colourLabel)
			sides := w.List(k8s.Deployment)
			if len(sides) != 1 {
				return fmt.Errorf("there are %d Deployments, and not one", len(sides))
			}
			if colour, _ := sides[0].Label(colourLabel); colour != serves {
				return fmt.Errorf("the Service points to %v, and the Deployment is %s", serves, colour)
			}
			return runs(sides[0], web("3").Spec.Image)
		})
	})
}

func runs(deployment *resource.Resource, image string) error {
	d, err := resource.As[appsv1.Deployment](deployment)
	if err == nil && imageOf(d) != image {
		err = fmt.Errorf("the Deployment runs %s, and not %s", imageOf(d), image)
	}
	return err
}
