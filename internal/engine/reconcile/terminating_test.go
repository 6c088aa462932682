package reconcile_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// In a namespace that is being terminated each pass tried as many creates as
// it may send at a time; and a child in a namespace that was there again was
// created only when something else happened to its parent.
func TestTerminatingNamespaceIsTriedAgainAndAgain(t *testing.T) {
	const count = 40
	for name, tc := range map[string]struct {
		reason    string
		parents   string // their namespace
		perPass   int    // creates, after the first pass
		afterward int    // children once the namespace is there again
	}{
		"Own":     {"it is gone before its name is free again, and the parent with it", "ns", 0, 0},
		"Foreign": {"it may be created anew", "", 1, count},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parents := fakeapi.Custom(sample.ParentType(), "parents")
				parents.ClusterScoped = tc.parents == ""
				server := fakeapi.New(parents, fakeapi.ConfigMaps())
				var terminating atomic.Bool
				var tries atomic.Int64
				terminating.Store(true)
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb != "create" || r.Type != k8s.ConfigMap {
						return nil
					}
					tries.Add(1)
					<-time.After(time.Millisecond)
					if terminating.Load() {
						return namespaceTerminating()
					}
					return nil
				}})
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					resp := &handler.SyncResponse{}
					for i := range count {
						resp.Children = append(resp.Children, map[string]any{
							"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("c", i), "namespace": "ns"},
						})
					}
					return resp, nil
				}))
				key := types.NamespacedName{Namespace: tc.parents, Name: "p"}
				_, err := server.Create(map[string]any{
					"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "metadata": map[string]any{"name": key.Name, "namespace": key.Namespace},
				})
				require.NoError(t, err)
				rig.Elapse(time.Second)
				require.Positive(t, tries.Load())
				require.LessOrEqual(t, tries.Load(), int64(apply.MaxWritesPerPass))
				require.Empty(t, r.Manager.Engine().Errors(key), "it is no error")

				before := tries.Load()
				for i := range 5 {
					_, err := server.Change(sample.ParentType(), key, func(o map[string]any) { o["spec"] = map[string]any{"value": fmt.Sprint(i)} })
					require.NoError(t, err)
					rig.Elapse(time.Second)
				}
				require.Equal(t, int64(5*tc.perPass), tries.Load()-before, tc.reason)

				terminating.Store(false)
				rig.Elapse(time.Minute)
				require.Len(t, server.List(k8s.ConfigMap), tc.afterward, tc.reason)
				r.Stop()
			})
		})
	}
}

func namespaceTerminating() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: "namespace ns is being terminated",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}}
}
