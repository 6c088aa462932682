package apierror

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
