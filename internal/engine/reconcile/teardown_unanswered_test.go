package reconcile_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// A parent that is torn down in an order doesn't go before a child whose creation nobody has told of.
func TestTeardown_CreationUnanswered(t *testing.T) {
	for name, answer := range map[string]error{
		"it is read":                         nil,
		"it can't be read at first":          errors.New("connection refused"),
		"something in between knows no more": apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "404 page not found", 0, true),
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := rig.Config()
				cfg.Teardown = config.TeardownOrdered
				s := rig.Server()
				var lost, read atomic.Int64
				s.SetHooks(fakeapi.Hooks{
					Before: func(r fakeapi.Request) error {
						if r.Verb == "get" && r.Type == k8s.ConfigMap && read.Add(1) == 1 {
							return answer
						}
						return nil
					},
					After: func(r fakeapi.Request) error {
						if r.Verb == "create" && r.Type == k8s.ConfigMap && lost.Add(1) == 1 {
							return errors.New("connection reset")
						}
						return nil
					},
				})
				r := rig.Start(t, s, cfg, handler.SyncFunc(rig.Copier))
				s.Hold(k8s.ConfigMap)
				r.Create("one", "v")
				rig.Elapse(50 * time.Millisecond)
				require.NotNil(t, r.Get(k8s.ConfigMap, "one"))
				require.NoError(t, s.Delete(sample.ParentType(), rig.Key("one")))
				rig.Elapse(10 * time.Second)
				require.True(t, r.Get(sample.ParentType(), "one") != nil || r.Get(k8s.ConfigMap, "one") == nil, "the child goes first")
				require.Positive(t, read.Load())
				s.Release()
				rig.Elapse(time.Minute)
				require.Nil(t, r.Get(k8s.ConfigMap, "one"))
				require.Nil(t, r.Get(sample.ParentType(), "one"))
				r.Stop()
			})
		})
	}
}
