package reconcile_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// A webhook or a proxy answers every create with a conflict. There is no newer state to
// wait for, so that is an error from the first answer on, and tried less and less often.
func TestCreate_AnsweredWithAConflict(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		asked := 0
		server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
			if q.Verb == "create" && q.Type == k8s.ConfigMap {
				asked++
				return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "one", errors.New("not now"))
			}
			return nil
		}})
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		rig.Elapse(time.Millisecond)
		require.Equal(t, 1, asked)
		require.Len(t, r.Errors("one"), 1, "the first answer")
		require.ErrorContains(t, r.Errors("one")[0], "ConfigMap ns/one: create: ")
		require.Len(t, slicesOf(recorded(r), "Warning"), 1)
		rig.Elapse(time.Hour)
		require.Greater(t, asked, 8)
		require.Less(t, asked, 30)
		_, told := r.Get(sample.ParentType(), "one").Field("status", "observedGeneration")
		require.False(t, told, "the status is that of a child that isn't there")
		require.Len(t, slicesOf(recorded(r), "Warning"), 1, "once")

		server.SetHooks(fakeapi.Hooks{})
		rig.Elapse(15 * time.Minute)
		require.NotNil(t, r.Get(k8s.ConfigMap, "one"))
		generation, _ := r.Get(sample.ParentType(), "one").Field("status", "observedGeneration")
		require.Equal(t, int64(1), generation)
		r.Stop()
	})
}
