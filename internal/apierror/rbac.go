package apierror

import (
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A ForbiddenError is a refusal by RBAC, with the rule that would allow the
// request.
type ForbiddenError struct {
	Err  error  // the API server's answer
	Rule string // as ruleText prints it
}

func (e *ForbiddenError) Error() string { return e.Err.Error() + "; add the rule " + e.Rule }

// Unwrap returns the API server's answer.
func (e *ForbiddenError) Unwrap() error { return e.Err }

// WithRule returns a refusal by RBAC as a *forbiddenError. Any other error is
// returned as it is. Admission refuses with the same status code, but in other
// words than RBAC.
func WithRule(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	// What RBAC's refusals say. A subresource is part of the resource there.
	refusal := regexp.MustCompile(`cannot ([a-z]+) resource "([^"]+)" in API group "([^"]*)"`).FindStringSubmatch(err.Error())
	if refusal == nil {
		return err
	}
	return &ForbiddenError{err, RuleText(refusal[3], refusal[2], refusal[1])}
}

// RuleText prints an RBAC rule as YAML on one line.
func RuleText(group, resource string, verbs ...string) string {
	return fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: ["%s"]}`, group, resource, strings.Join(verbs, `", "`))
}
