package reconcile_test

import (
	"errors"
	"strings"
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

// While a parent that has left the selector is read, it comes back and leaves again.
// The answer says that it is back. What the watch has told meanwhile is newer.
func TestDeparted_BackAndGoneAgainWhileItIsRead(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		parentWith(t, server, "one", "no", ours)
		happened := false
		relabel := func(mine string) {
			_, err := server.Change(sample.ParentType(), rig.Key("one"), label(mine))
			require.NoError(t, err)
		}
		during := func(r fakeapi.Request) bool { return r.Verb == "get" && r.Type == sample.ParentType() && !happened }
		server.SetHooks(fakeapi.Hooks{
			Before: func(r fakeapi.Request) error {
				if during(r) {
					relabel("yes")
				}
				return nil
			},
			After: func(r fakeapi.Request) error {
				if during(r) {
					happened = true
					<-time.After(time.Millisecond) // the watch tells
					relabel("no")
					<-time.After(time.Millisecond)
				}
				return nil
			},
		})
		r := rig.Start(t, server, selecting(), handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Hour)
		require.True(t, happened)
		require.Empty(t, r.Get(sample.ParentType(), "one").Finalizers())
		require.Zero(t, r.Manager.Engine().Sizes()["departed"])
		r.Stop()
	})
}

// A namespace that can't be listed keeps no parent elsewhere from being released.
func TestDepartedBeforeTheStart_OneNamespaceOfTwo(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		parentWith(t, server, "one", "no", ours)
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "list" && r.Type == sample.ParentType() && r.Key.Namespace == "denied" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "parents"}, "", errors.New("no"))
			}
			return nil
		}})
		cfg := selecting()
		cfg.Namespaces = []string{"denied", "ns"}
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Hour)
		require.Empty(t, r.Get(sample.ParentType(), "one").Finalizers())
		require.Equal(t, 1, strings.Count(r.Logs.String(), "can't look for parents"))
		require.Zero(t, r.Manager.Engine().Sizes()["departed"])
		r.Stop()
	})
}
