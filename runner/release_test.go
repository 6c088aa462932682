package runner

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
)

func release(server *fakeapi.Server, cfg config.Operator) (string, error) {
	var out strings.Builder
	err := releaseFinalizers(context.Background(), cfg, Options{RESTConfig: server.RESTConfig(), Logger: slog.New(slog.DiscardHandler)}, &out)
	return out.String(), err
}

// releasable is a server with parents in many a state.
func releasable(t *testing.T) *fakeapi.Server {
	t.Helper()
	server := fakeapi.New(fakeapi.Custom(testParentType(), "parents")) // the children's type is gone already
	createParent(t, server, "c", "1", "roperator.com/op")
	createParent(t, server, "a", "1", "theirs", "old", "roperator.com/op", "other")
	createParent(t, server, "b", "1", "theirs")
	createParent(t, server, "d", "1", "roperator.com/op")
	require.NoError(t, server.Delete(testParentType(), rigKey("d")))
	return server
}

func TestReleaseFinalizers(t *testing.T) {
	cfg := rigConfig()
	cfg.FormerFinalizers = []string{"old"}
	cfg.ParentSelector = "nobody=matches"
	lines := `Parent ns/a: finalizer old, roperator.com/op %removed
Parent ns/c: finalizer roperator.com/op %removed
Parent ns/d: finalizer roperator.com/op %removed
3 of 4 parents %released.
`
	bubble(t, func(t *testing.T) {
		server := releasable(t)
		dry := cfg
		dry.DryRun = true
		out, err := release(server, dry)
		require.NoError(t, err)
		require.Equal(t, strings.ReplaceAll(lines, "%", "would be "), out)
		require.Empty(t, server.Writes())

		out, err = release(server, cfg)
		require.NoError(t, err)
		require.Equal(t, strings.ReplaceAll(lines, "%", ""), out)
		require.Equal(t, []string{"theirs", "other"}, server.Get(testParentType(), rigKey("a")).Finalizers(), "others keep theirs")
		require.Equal(t, []string{"theirs"}, server.Get(testParentType(), rigKey("b")).Finalizers())
		require.Empty(t, server.Get(testParentType(), rigKey("c")).Finalizers())
		require.Nil(t, server.Get(testParentType(), rigKey("d")), "its deletion goes on")

		out, err = release(server, cfg)
		require.NoError(t, err)
		require.Equal(t, "0 of 3 parents released.\n", out)
	})
}

func TestReleaseFinalizersErrors(t *testing.T) {
	parents := schema.GroupResource{Group: "example.com", Resource: "parents"}
	bubble(t, func(t *testing.T) {
		server := releasable(t)
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "patch" && r.Key.Name == "a" {
				return apierrors.NewForbidden(parents, "a", errors.New(`User "me" cannot patch resource "parents" in API group "example.com" in the namespace "ns"`))
			}
			return nil
		}})
		out, err := release(server, rigConfig())
		require.EqualError(t, err, `Parent ns/a: finalizer roperator.com/op: parents.example.com "a" is forbidden: User "me" cannot patch resource "parents" in API group `+
			`"example.com" in the namespace "ns"; add the rule {apiGroups: ["example.com"], resources: ["parents"], verbs: ["patch"]}`)
		require.Contains(t, out, "2 of 4 parents released.", "the others in spite of it")

		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "list" {
				return apierrors.NewForbidden(parents, "", errors.New("no"))
			}
			return nil
		}})
		_, err = release(server, rigConfig())
		require.ErrorContains(t, err, `add the rule {apiGroups: ["example.com"], resources: ["parents"], verbs: ["list"]}`)
	})
}

// Somebody who edits the finalizers at the same time loses nothing.
func TestReleaseFinalizersConflict(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Custom(testParentType(), "parents"))
		createParent(t, server, "p", "1", "roperator.com/op")
		var once sync.Once
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) (err error) {
			if r.Verb == "patch" {
				once.Do(func() {
					_, err = server.Change(testParentType(), rigKey("p"), func(o map[string]any) {
						metaOf(o)["finalizers"] = []any{"new", "roperator.com/op"}
					})
				})
			}
			return err
		}})
		_, err := release(server, rigConfig())
		require.NoError(t, err)
		require.Equal(t, []string{"new"}, server.Get(testParentType(), rigKey("p")).Finalizers())
	})
}

func TestReleaseFinalizersNotServed(t *testing.T) {
	server := fakeapi.New()
	_, err := release(server, rigConfig())
	require.ErrorContains(t, err, "install the CustomResourceDefinition")
	cfg := rigConfig()
	cfg.Parent = resource.Type{}
	_, err = release(server, cfg)
	require.ErrorContains(t, err, "config")
}
