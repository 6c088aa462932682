package apierror

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestWithRule: a rule is that of the request, and named only if the answer is RBAC's
// about this very request.
func TestWithRule(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	said := func(gr schema.GroupResource, name, text string) error {
		return apierrors.NewForbidden(gr, name, errors.New(text))
	}
	const place = ` in the namespace "ns"`
	update := Request{Verb: "update", Group: "apps", Resource: "deployments", Name: "web"}
	status := update
	status.Subresource = "status"
	apply := Request{Verb: "patch", Group: "apps", Resource: "deployments", Name: "web", Applies: true}
	patch := apply
	patch.Applies = false
	create := Request{Verb: "create", Resource: "secrets"}
	const cannot = `User "op" cannot update resource "deployments" in API group "apps"`
	for name, tc := range map[string]struct {
		reason string
		of     Request
		err    error
		want   string // the rule; empty: none is named
	}{
		"update":         {"RBAC's words", update, said(deployments, "web", cannot+place), `{apiGroups: ["apps"], resources: ["deployments"], verbs: ["update"]}`},
		"cluster":        {"of a cluster-scoped object", update, said(deployments, "web", cannot+" at the cluster scope"), `{apiGroups: ["apps"], resources: ["deployments"], verbs: ["update"]}`},
		"explained":      {"an authorizer may say why", update, said(deployments, "web", cannot+place+": no rule"), `{apiGroups: ["apps"], resources: ["deployments"], verbs: ["update"]}`},
		"nameless":       {"a create names no object", create, said(schema.GroupResource{Resource: "secrets"}, "", `User "a \"b\" c" cannot create resource "secrets" in API group ""`+place), `{apiGroups: [""], resources: ["secrets"], verbs: ["create"]}`},
		"subresource":    {"a right of its own", status, said(deployments, "web", `User "op" cannot update resource "deployments/status" in API group "apps"`+place), `{apiGroups: ["apps"], resources: ["deployments/status"], verbs: ["update"]}`},
		"apply":          {"an apply is a patch", apply, said(deployments, "web", `User "op" cannot patch resource "deployments" in API group "apps"`+place), `{apiGroups: ["apps"], resources: ["deployments"], verbs: ["patch"]}`},
		"apply creates":  {"and may be a create", apply, said(deployments, "web", `User "op" cannot create resource "deployments" in API group "apps"`+place), `{apiGroups: ["apps"], resources: ["deployments"], verbs: ["create"]}`},
		"patch creates":  {"no other patch is", patch, said(deployments, "web", `User "op" cannot create resource "deployments" in API group "apps"`+place), ""},
		"other verb":     {"it isn't about this request", update, said(deployments, "web", `User "op" cannot delete resource "deployments" in API group "apps"`+place), ""},
		"other resource": {"it isn't about this request", update, said(deployments, "web", `User "op" cannot update resource "secrets" in API group "apps"`+place), ""},
		"wildcards":      {"an attacker's choice", update, said(deployments, "web", `User "op" cannot update resource "*" in API group "*"`+place), ""},
		"other group":    {"it isn't about this request", update, said(deployments, "web", `User "op" cannot update resource "deployments" in API group ""`+place), ""},
		"status for all": {"the object isn't its status", update, said(deployments, "web", `User "op" cannot update resource "deployments/status" in API group "apps"`+place), ""},
		"other subject":  {"RBAC begins with what was asked for", update, said(schema.GroupResource{Resource: "secrets"}, "web", cannot+place), ""},
		"webhook":        {"a rule mends no webhook's refusal", update, said(deployments, "web", `admission webhook "a" denied the request: deployments.apps "web" is forbidden: `+cannot+place), ""},
		"bare webhook":   {"as the API server hands it on", update, &apierrors.StatusError{ErrStatus: forbidden(`admission webhook "a" denied the request: ` + cannot + place)}, ""},
		"policy":         {"nor that of a policy", update, said(deployments, "web", `ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `+cannot+place), ""},
		"no place":       {"RBAC says where", update, said(deployments, "web", cannot+"s"), ""},
		"unquoted":       {"RBAC quotes", update, said(deployments, "web", `User op cannot update resource "deployments" in API group "apps"`+place), ""},
		"not forbidden":  {"RBAC says that it is", update, &apierrors.StatusError{ErrStatus: forbidden(`deployments.apps "web" ` + cannot + place)}, ""},
		"other code":     {"RBAC answers 403", update, apierrors.NewBadRequest(`deployments.apps "web" is forbidden: ` + cannot + place), ""},
		"no answer":      {"it may be a proxy's page", update, errors.New(cannot), ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{tc.err, Redacted(tc.err, tc.of)} {
				lacks, ok := errors.AsType[*ForbiddenError](WithRule(err, tc.of))
				require.Equal(t, tc.want != "", ok, tc.reason)
				if ok {
					require.Equal(t, tc.want, lacks.Rule, tc.reason)
				}
			}
		})
	}
	require.NoError(t, WithRule(nil, update))
}

// TestWhyForbidden: only the API server's own words tell that a right to set owner
// references is missing.
func TestWhyForbidden(t *testing.T) {
	things := schema.GroupResource{Group: "example.com", Resource: "things"}
	const blocked = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"
	const owned = "cannot set an ownerRef on a resource you can't delete: , <nil>"
	for name, tc := range map[string]struct {
		reason string
		err    error
		want   string
	}{
		"blocks":  {"the owner's finalizers", apierrors.NewForbidden(things, "c", errors.New(blocked)), blocked},
		"deletes": {"the object", apierrors.NewForbidden(things, "c", errors.New(owned)), owned},
		"webhook": {"it speaks of it", &apierrors.StatusError{ErrStatus: forbidden(`admission webhook "a" denied the request: ` + blocked)}, ""},
		"policy":  {"it may speak of it, but not from the first word on", apierrors.NewForbidden(things, "c", errors.New(`ValidatingAdmissionPolicy 'p' denied request: `+owned)), "ValidatingAdmissionPolicy 'p' denied request: " + owned},
		"other":   {"about another resource", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "c", errors.New(blocked)), ""},
		"nil":     {"no refusal", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, WhyForbidden(tc.err, "example.com", "things"), tc.reason)
		})
	}
}

// forbidden returns the status of a 403 with these words.
func forbidden(message string) metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: message}
}
