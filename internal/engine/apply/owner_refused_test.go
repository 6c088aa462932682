package apply_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestOwnerRefused: each way in which OwnerReferencesPermissionEnforcement refuses an
// owner reference has advice of its own. The texts are those of
// kubernetes/plugin/pkg/admission/gc/gc_admission.go.
func TestOwnerRefused(t *testing.T) {
	const finalizers = `; add the rule {apiGroups: ["example.com"], resources: ["parents/finalizers"], verbs: ["update"]}`
	const isServed = "; no right is missing: the API server doesn't know the kind example.com/v1/Parent yet, or not any more; " +
		"it learns of a new CustomResourceDefinition within a minute, and this is tried again; else see that the CustomResourceDefinition is there and established"
	const ofAnother = "; the API server doesn't know the kind of another owner that the handler has set: see that its apiVersion and kind are right, and served"
	for name, tc := range map[string]struct {
		reason, text, want string
	}{
		"finalizers": {
			"who holds up a parent's deletion needs a right on it",
			"cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>", finalizers,
		},
		"finalizers, with the authorizer's reason": {
			"a binding names a role that isn't there",
			`cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: RBAC: role.rbac.authorization.k8s.io "x" not found, <nil>`, finalizers,
		},
		"delete": {
			"who makes something another's child lets that one's deletion delete it",
			"cannot set an ownerRef on a resource you can't delete: , <nil>", `; add the rule {apiGroups: [""], resources: ["RESOURCE"], verbs: ["delete"]}`,
		},
		"unknown kind": {
			"the CRD has just come, or gone: no rule would help",
			`cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion example.com/v1 Kind Parent: no matches for kind "Parent" in version "example.com/v1"`, isServed,
		},
		"discovery fails": {
			"another API server behind this one doesn't answer",
			"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion example.com/v1 Kind Parent: unable to retrieve the complete list of server APIs", isServed,
		},
		"unknown kind of another owner": {
			"a handler may set owner references of its own",
			`cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion example.com/v1 Kind Parental: no matches for kind "Parental" in version "example.com/v1"`, ofAnother,
		},
		"invalid version of another owner": {
			"the plugin can't even read it",
			"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion a/b/c Kind Parent: unexpected GroupVersion string: a/b/c", ofAnother,
		},
		"webhook": {
			"somebody else's words: no rule would help",
			`admission webhook "owners.example.com" denied the request: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on`, "",
		},
		"policy": {"no owner reference is meant", "blockOwnerDeletion is not for this namespace", ""},
	} {
		for _, of := range []struct {
			t      resource.Type
			plural string
		}{{k8s.ConfigMap, "configmaps"}, {k8s.Secret, "secrets"}} {
			t.Run(name+"/"+of.t.Kind, func(t *testing.T) {
				f := newFixture(t, "ns", false, config.Child{Type: of.t, Strategy: config.Replace})
				answer := apierrors.NewForbidden(schema.GroupResource{Resource: of.plural}, "c", errors.New(tc.text))
				f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb == "create" {
						return answer
					}
					return nil
				}})
				report := f.run(t.Context(), f.plan(nil, child(of.t, "c", nil)))
				require.Len(t, report.Results, 1)
				err := report.Results[0].Err
				want := map[string]string{"ConfigMap": answer.Error(), "Secret": apierror.Redacted(answer, apierror.Request{Verb: "create", Resource: "secrets"}).Error()}[of.t.Kind]
				want += strings.ReplaceAll(tc.want, "RESOURCE", of.plural)
				require.EqualError(t, err, of.t.Kind+" ns/c: create: "+want, tc.reason)
				_, refused := errors.AsType[*apierror.RefusedError](err)
				require.True(t, refused, "it is tried again, in growing distance")
			})
		}
	}
	require.Equal(t, "example.com/v1/Parent", sample.ParentType().String())
}
