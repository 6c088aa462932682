package testkit

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/apischema"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// checkSchemas returns what a strict API server would refuse of the children, and of the
// parent's status, by their schemas: an error for each object.
func (p *Plan) checkSchemas() []error {
	p.t.Helper()
	checker, err := apischema.New()
	if err != nil {
		p.t.Fatalf("testkit: sync: %v", err)
	}
	creations := map[object.Ref]bool{}
	for _, a := range p.planned.Actions {
		creations[object.Ref{Type: a.Type, Key: keyOf(a.Object)}] = a.Verb == "create" || a.Verb == "recreate"
	}
	var errs []error
	unknown := map[resource.Type]bool{}
	for _, child := range p.planned.Desired {
		t, key := typeOf(child), keyOf(child)
		if !checker.Knows(t) && !unknown[t] {
			unknown[t] = true
			p.t.Logf("testkit: sync: no %s is checked by its schema: known are those of the kinds that are built into Kubernetes %s", t, checker.Version())
		}
		errs = append(errs, refusal(t, key, checker.Check(child, creations[object.Ref{Type: t, Key: key}])))
	}
	errs = append(errs, p.checkStatus(checker))
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// refusal is the error about an object with these problems.
func refusal(t resource.Type, key types.NamespacedName, problems []apischema.Problem) error {
	errs := make([]error, 0, len(problems))
	for _, problem := range problems {
		errs = append(errs, fmt.Errorf("%s: %s", describe(t, key), problem))
	}
	return apierror.Join(errs)
}

// checkStatus returns what a strict API server would refuse of the parent's status.
func (p *Plan) checkStatus(checker *apischema.Checker) error {
	t, key := p.parent.Type(), p.parent.Key()
	if p.planned.Returned == nil {
		return nil
	}
	return refusal(t, key, checker.Check(map[string]any{
		"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": key.Name}, "status": p.planned.Returned,
	}, false))
}
