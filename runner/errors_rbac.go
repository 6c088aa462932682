package runner

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A forbiddenError is a request that RBAC doesn't allow, with the rule that
// would.
type forbiddenError struct {
	err  error
	rule string
}

func (e *forbiddenError) Error() string { return e.err.Error() + "; add the rule " + e.rule }
func (e *forbiddenError) Unwrap() error { return e.err }

// withRule adds the missing rule to an error that names it: one of RBAC, since
// admission forbids in other words.
func withRule(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	// The API server's words; a subresource is part of the resource.
	refusal := regexp.MustCompile(`cannot ([a-z]+) resource "([^"]+)" in API group "([^"]*)"`).FindStringSubmatch(err.Error())
	if refusal == nil {
		return err
	}
	return &forbiddenError{err, ruleText(refusal[3], refusal[2], refusal[1])}
}

// ownerRule returns the rule that a refusal of an owner reference lacks, "" if
// err is another error. Where the admission plugin
// OwnerReferencesPermissionEnforcement is on, who gives an object an owner must
// be allowed to delete the object, since its owner's end does, and to set the
// finalizers of the owner that it is to block.
func (x *executor) ownerRule(k *kind, err error) string {
	switch {
	case !apierrors.IsForbidden(err):
		return ""
	case strings.Contains(err.Error(), "blockOwnerDeletion"):
		parent := x.types.parent.gvr
		return ruleText(parent.Group, parent.Resource+"/finalizers", "update")
	case strings.Contains(err.Error(), "ownerRef on a resource you can't delete"):
		return k.rule("delete")
	}
	return ""
}

// forbidden adds the rule that a refused request for a type lacks.
func forbidden(k *kind, verb string, err error) error {
	if _, ok := errors.AsType[*forbiddenError](err); ok || !apierrors.IsForbidden(err) {
		return err
	}
	return &forbiddenError{err, k.rule(verb)}
}

// ruleText prints an RBAC rule.
func ruleText(group, resource string, verbs ...string) string {
	return fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: ["%s"]}`, group, resource, strings.Join(verbs, `", "`))
}
