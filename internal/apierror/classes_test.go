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
