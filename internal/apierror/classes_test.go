package apierror

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestRefusesDryRun(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		reason string
		err    error
		want   bool
	}{
		"nil":      {"no error is no refusal", nil, false},
		"declared": {"of a webhook with side effects the API server says it", apierrors.NewBadRequest(`admission webhook "a.example.com" does not support dry run`), true},
		"own words": {
			"webhooks may refuse with any code and spelling",
			apierrors.NewForbidden(pods, "one", errors.New(`admission webhook "a.example.com" denied the request: DryRun is not supported`)), true,
		},
		"denied": {
			"what is refused for another reason would be refused as a write, too",
			apierrors.NewForbidden(pods, "one", errors.New(`admission webhook "a.example.com" denied the request: no latest tags`)), false,
		},
		"no webhook": {"the API server itself has nothing against dry runs", apierrors.NewBadRequest("the dry run parameter is wrong"), false},
		"no answer":  {"a lost connection says nothing", errors.New(`admission webhook: dry run: connection refused`), false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, RefusesDryRun(test.err), test.reason) })
	}
}

func TestShareCause(t *testing.T) {
	invalid := func(name string, fields ...string) error {
		var list field.ErrorList
		for _, f := range fields {
			list = append(list, field.Invalid(field.NewPath(f), "v", "is wrong"))
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, list)
	}
	policy := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "one", errors.New("never"))
	for name, test := range map[string]struct {
		reason string
		a, b   error
		want   bool
	}{
		"same":      {"the objects' names don't matter", invalid("one", "a", "b"), invalid("two", "b", "a"), true},
		"wrapped":   {"a wrapped answer is one", fmt.Errorf("update: %w", invalid("one", "a")), invalid("two", "a"), true},
		"more":      {"one of them has a reason of its own, too", invalid("one", "a", "b"), invalid("two", "a"), true},
		"other":     {"another field", invalid("one", "a"), invalid("two", "b"), false},
		"name":      {"another name may be accepted", invalid("one", "metadata.name"), invalid("one", "metadata.name"), false},
		"no causes": {"nothing tells what is wrong", invalid("one"), invalid("one"), false},
		"policy":    {"who says no may look at the name", policy, policy, false},
		"nil":       {"no refusal", nil, nil, false},
		"accepted":  {"one is accepted", invalid("one", "a"), nil, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, ShareCause(test.a, test.b), test.reason) })
	}
}

func TestCollides(t *testing.T) {
	for text, want := range map[string]bool{
		`host "a" is already defined in ingress ns/web`:                 true,
		`PriorityClass web is already marked as default.`:               true,
		`name already taken: web.`:                                      true,
		`host "web.example.com" is already defined in ingress ns/other`: false,
		`the label web is forbidden`:                                    false,
		`webs are already there`:                                        false,
	} {
		require.Equal(t, want, Collides(errors.New(text), "web"), text)
	}
	require.False(t, Collides(nil, "web"))
}

func TestQuotaOf(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	q, ok := QuotaOf(apierrors.NewForbidden(pods, "one", errors.New("exceeded quota: q, requested: pods=1,requests.cpu=1500m, used: pods=3,requests.cpu=1, limited: pods=3,requests.cpu=2")))
	require.True(t, ok)
	require.Equal(t, "q", q.Quota)
	require.Len(t, q.Requested, 2)
	cpu := q.Requested["requests.cpu"]
	require.Equal(t, "1500m", cpu.String())
	for _, text := range []string{
		"must specify requests.cpu", "exceeded quota: q, requested: , used: , limited: ", "exceeded quota: q, requested: pods=1, used: x=3, limited: pods=3",
	} {
		_, ok := QuotaOf(apierrors.NewForbidden(pods, "one", errors.New(text)))
		require.False(t, ok, text)
	}
	_, ok = QuotaOf(nil)
	require.False(t, ok)
}

// TestIsNoApply: the words are the API server's, and those of a webhook are an answer to the update as well.
func TestIsNoApply(t *testing.T) {
	for text, want := range map[string]bool{
		"failed to create typed patch object (ns/one; v1, Kind=Thing): .spec.x: field not declared in schema":              true,
		"failed to create typed live object (ns/one; v1, Kind=Thing): .spec.list: duplicate entries":                       true,
		"failed to convert new object: .spec.new: field not declared in schema":                                            true,
		"failed to prune fields: failed to convert merged object at version example.com/v1: .spec.new: field not declared": true,
		".spec.onlyone: field not declared in schema":                                                                      true,
		"etcdserver: request timed out": false,
	} {
		err := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: text}}
		require.Equal(t, want, IsNoApply(err), text)
		require.Equal(t, want, IsNoApply(Redacted(err, secretRequest())), "%s, of a Secret", text)
	}
	require.False(t, IsNoApply(nil))
}
