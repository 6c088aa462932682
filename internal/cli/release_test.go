package cli

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
)

func release(server *fakeapi.Server, cfgs ...config.Operator) (string, error) {
	var operators []Operator
	for _, cfg := range cfgs {
		operators = append(operators, Operator{Config: cfg})
	}
	var out strings.Builder
	c := &command{stdout: &out, program: &Program{
		Release: func(ctx context.Context, o Operator, _ Options, say func(string)) (int, error) {
			m, err := rig.NewOne(o.Config, handler.SyncFunc(nil), manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()})
			if err != nil {
				return 0, err
			}
			return m.Release(ctx, say)
		},
	}}
	err := c.release(context.Background(), operators, Options{})
	return out.String(), err
}

// releasable is a server with parents in many a state.
func releasable(t *testing.T) *fakeapi.Server {
	t.Helper()
	server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents")) // the children's type is gone already
	rig.CreateParent(t, server, "c", "1", "roperator.com/op")
	rig.CreateParent(t, server, "a", "1", "theirs", "old", "roperator.com/op", "other")
	rig.CreateParent(t, server, "b", "1", "theirs")
	rig.CreateParent(t, server, "d", "1", "roperator.com/op")
	require.NoError(t, server.Delete(sample.ParentType(), rig.Key("d")))
	return server
}

func TestReleaseFinalizers(t *testing.T) {
	cfg := rig.Config()
	cfg.FormerFinalizers = []string{"old"}
	cfg.ParentSelector = "nobody=matches"
	lines := `Parent ns/a: finalizer old, roperator.com/op %removed
Parent ns/c: finalizer roperator.com/op %removed
Parent ns/d: finalizer roperator.com/op %removed
3 of 4 parents %released.
`
	rig.Bubble(t, func(t *testing.T) {
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
		require.Equal(t, []string{"theirs", "other"}, server.Get(sample.ParentType(), rig.Key("a")).Finalizers(), "others keep theirs")
		require.Equal(t, []string{"theirs"}, server.Get(sample.ParentType(), rig.Key("b")).Finalizers())
		require.Empty(t, server.Get(sample.ParentType(), rig.Key("c")).Finalizers())
		require.Nil(t, server.Get(sample.ParentType(), rig.Key("d")), "its deletion goes on")

		out, err = release(server, cfg)
		require.NoError(t, err)
		require.Equal(t, "0 of 3 parents released.\n", out)
	})
}

func TestReleaseFinalizersErrors(t *testing.T) {
	parents := schema.GroupResource{Group: "example.com", Resource: "parents"}
	rig.Bubble(t, func(t *testing.T) {
		server := releasable(t)
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "patch" && r.Key.Name == "a" {
				return apierrors.NewForbidden(parents, "a", errors.New(`User "me" cannot patch resource "parents" in API group "example.com" in the namespace "ns"`))
			}
			return nil
		}})
		out, err := release(server, rig.Config())
		require.EqualError(t, err, `Parent ns/a: finalizer roperator.com/op: parents.example.com "a" is forbidden: User "me" cannot patch resource "parents" in API group `+
			`"example.com" in the namespace "ns"; add the rule {apiGroups: ["example.com"], resources: ["parents"], verbs: ["patch"]}`)
		require.Contains(t, out, "2 of 4 parents released.", "the others in spite of it")

		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "list" {
				return apierrors.NewForbidden(parents, "", errors.New("no"))
			}
			return nil
		}})
		_, err = release(server, rig.Config())
		require.ErrorContains(t, err, `add the rule {apiGroups: ["example.com"], resources: ["parents"], verbs: ["list"]}`)
	})
}

// Somebody who edits the finalizers at the same time loses nothing.
func TestReleaseFinalizersConflict(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"))
		rig.CreateParent(t, server, "p", "1", "roperator.com/op")
		var once sync.Once
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) (err error) {
			if r.Verb == "patch" {
				once.Do(func() {
					_, err = server.Change(sample.ParentType(), rig.Key("p"), func(o map[string]any) {
						meta, _ := o["metadata"].(map[string]any)
						meta["finalizers"] = []any{"new", "roperator.com/op"}
					})
				})
			}
			return err
		}})
		_, err := release(server, rig.Config())
		require.NoError(t, err)
		require.Equal(t, []string{"new"}, server.Get(sample.ParentType(), rig.Key("p")).Finalizers())
	})
}

func TestReleaseFinalizersNotServed(t *testing.T) {
	server := fakeapi.New()
	_, err := release(server, rig.Config())
	require.ErrorContains(t, err, "install the CustomResourceDefinition")
	cfg := rig.Config()
	cfg.Parent = resource.Type{}
	_, err = release(server, cfg)
	require.ErrorContains(t, err, "config")
}
