package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// A webhook answers every write of a status with a 404, and another one refuses the child.
// The parent changes after the first writes were refused, and the watch is late: a newer
// parent is awaited by then, and the status that was due to be tried again doesn't set
// off pass after pass.
func TestStatus_RefusedThenAwaited(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			switch {
			case r.Subresource == "status":
				return apierrors.NewNotFound(schema.GroupResource{Resource: "parents"}, r.Key.Name)
			case r.Verb == "create":
				return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, r.Key.Name, nil)
			}
			return nil
		}})
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		rig.Elapse(3 * time.Second)
		require.NotEmpty(t, r.Errors("one"), "the parent is as it was: no newer one is awaited")
		server.Hold(sample.ParentType())
		r.SetSpec("one", "v2")
		before := r.Passes()
		rig.Elapse(time.Minute)
		require.Less(t, r.Passes()-before, 40)
		server.SetHooks(fakeapi.Hooks{})
		server.Release()
		rig.Elapse(10 * time.Second)
		status, _ := r.Get(sample.ParentType(), "one").Field("status", "value")
		require.Equal(t, "v2", status)
		r.Stop()
	})
}
