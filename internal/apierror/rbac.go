package apierror

import (
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A ForbiddenError is a refusal by RBAC, with the rule that would allow the request.
type ForbiddenError struct {
	Err  error  // the API server's answer
	Rule string // as RuleText prints it
}

// Error returns the API server's answer and the rule to add.
func (e *ForbiddenError) Error() string { return e.Err.Error() + "; add the rule " + e.Rule }

// Unwrap returns the API server's answer.
func (e *ForbiddenError) Unwrap() error { return e.Err }

// WithRule returns a refusal by RBAC as a *ForbiddenError, and any other error as it
// is. Admission refuses with the same status code as RBAC, but in other words.
func WithRule(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	// The words of RBAC's refusals. The resource includes the subresource.
	refusal := regexp.MustCompile(`cannot ([a-z]+) resource "([^"]+)" in API group "([^"]*)"`).FindStringSubmatch(err.Error())
	if refusal == nil {
		return err
	}
	return &ForbiddenError{err, RuleText(refusal[3], refusal[2], refusal[1])}
}

// RuleText prints an RBAC rule as YAML on one line. resource may include a
// subresource, as in "pods/status".
func RuleText(group, resource string, verbs ...string) string {
	return fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: ["%s"]}`, group, resource, strings.Join(verbs, `", "`))
}
