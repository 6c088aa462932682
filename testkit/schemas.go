package testkit

import (
	"fmt"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/apischema"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// checkSchemas returns what a strict API server would refuse of the children, and of the
// parent's status, by their schemas.
func (p *Plan) checkSchemas() error {
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
		for _, problem := range checker.Check(child, creations[object.Ref{Type: t, Key: key}]) {
			errs = append(errs, fmt.Errorf("%s: %s", describe(t, key), problem))
		}
	}
	return apierror.Join(append(errs, p.checkStatus(checker)...))
}

// checkStatus returns what a strict API server would refuse of the parent's status.
func (p *Plan) checkStatus(checker *apischema.Checker) []error {
	t, key := p.parent.Type(), p.parent.Key()
	if p.planned.Returned == nil {
		return nil
	}
	var errs []error
	for _, problem := range checker.Check(map[string]any{
		"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": key.Name}, "status": p.planned.Returned,
	}, false) {
		errs = append(errs, fmt.Errorf("%s: %s", describe(t, key), problem))
	}
	return errs
}
