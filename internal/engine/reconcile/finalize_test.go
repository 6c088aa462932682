package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// A parent is deleted after the pass has read it and before the finalizer is added. It is
// too late for a finalizer, that is no error, and Sync isn't called for such a parent.
func TestFinalizer_OfAParentThatIsDeletedMeanwhile(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		synced, patched := 0, 0
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Verb != "patch" {
				return nil
			}
			if patched++; patched == 1 {
				return server.Delete(sample.ParentType(), rig.Key("one"))
			}
			return nil
		}})
		r := rig.Start(t, server, rig.Config(), &handler.Funcs{
			SyncFunc: func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				synced++
				return rig.Copier(ctx, req)
			},
			FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				return &handler.FinalizeResponse{Finalized: true}, nil
			},
		})
		rig.CreateParent(t, server, "one", "v", "example.com/theirs")
		rig.Elapse(time.Minute)
		require.Equal(t, 1, patched)
		require.Zero(t, synced)
		require.Empty(t, r.Errors("one"))
		require.Equal(t, []string{"example.com/theirs"}, r.Get(sample.ParentType(), "one").Finalizers())
		require.Nil(t, r.Get(k8s.ConfigMap, "one"))
		r.Stop()
	})
}

// Another parent of the same name is there when the finalizer is added. The pass is over: it
// was about the one that is gone. The watch tells of the other, which has its own pass.
func TestFinalizer_OfAParentThatIsReplacedMeanwhile(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		var patched []string // the values of the parents that a patch finds
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Verb != "patch" {
				return nil
			}
			if len(patched) == 0 {
				server.Hold(sample.ParentType())
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
				rig.CreateParent(t, server, "one", "new")
			}
			value, _ := server.Get(sample.ParentType(), rig.Key("one")).Field("spec", "value")
			patched = append(patched, fmt.Sprint(value))
			return nil
		}})
		r := rig.Start(t, server, rig.Config(), &handler.Funcs{
			SyncFunc: rig.Copier,
			FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				return &handler.FinalizeResponse{Finalized: true}, nil
			},
		})
		r.Create("one", "old")
		synctest.Wait()
		require.Equal(t, []string{"new"}, patched, "nothing is done to the other in the pass over the first")
		require.Nil(t, r.Get(k8s.ConfigMap, "one"))
		server.Release()
		rig.Elapse(time.Minute)
		require.Equal(t, []string{"new", "new"}, patched)
		value, _ := r.Get(k8s.ConfigMap, "one").Field("data", "value")
		require.Equal(t, "new", value)
		require.Empty(t, r.Errors("one"))
		r.Stop()
	})
}

// The answer to the patch that takes the last finalizer off shows the parent as it was.
// The parent is gone, though the watch hasn't told yet.
func TestFinalized_BeforeTheWatchTells(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		r := rig.Start(t, server, rig.Config(), &handler.Funcs{
			SyncFunc: rig.Copier,
			FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				server.Hold(sample.ParentType())
				return &handler.FinalizeResponse{Finalized: true}, nil
			},
		})
		r.Create("one", "v")
		synctest.Wait()
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
		synctest.Wait()
		require.Nil(t, r.Get(sample.ParentType(), "one"))
		_, held := r.Manager.Engine().Observed(sample.ParentType(), rig.Key("one"))
		require.False(t, held)
		server.Release()
		synctest.Wait()
		r.Stop()
	})
}
