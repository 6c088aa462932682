package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// manyTypos returns a handler that wants this many ConfigMaps of each parent, named after it.
func manyTypos(count int) handler.SyncFunc {
	return func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		resp := &handler.SyncResponse{}
		value, _ := req.Parent.Field("spec", "value")
		for i := range count {
			resp.Children = append(resp.Children, rig.Copied(fmt.Sprintf("%s-%d", req.Parent.Name(), i), value))
		}
		return resp, nil
	}
}

// warnOfTypos has a server warn of an unknown field in each write of a ConfigMap.
func warnOfTypos(server *fakeapi.Server) {
	server.SetHooks(fakeapi.Hooks{Warn: func(r fakeapi.Request) []string {
		if r.Type == k8s.ConfigMap && r.Writes() {
			return []string{`unknown field "dta"`}
		}
		return nil
	}})
}

// What the API server warns of names the object, once for each, and is an Event on the parent.
func TestWarnings(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		warnOfTypos(server)
		r := rig.Start(t, server, rig.Config(), manyTypos(2))
		r.Create("p", "v")
		r.Create("q", "v")
		rig.Elapse(time.Minute)
		const event = `the API server warned: unknown field "dta": ConfigMap `
		for _, name := range []string{"p", "q"} {
			require.Len(t, said(server, fmt.Sprintf("%s%[2]s-0, ConfigMap %[2]s-1", event, name)), 1, "one Event of both children")
			for i := range 2 {
				require.Regexp(t, fmt.Sprintf(`level=WARN msg="API server warned about a request" controller=op syncID=\w+ namespace=ns name=%[1]s type=v1/ConfigMap object=ns/%[1]s-%[2]d warning="unknown field`, name, i), r.Logs.String())
			}
		}
		r.SetSpec("p", "v2")
		rig.Elapse(time.Minute)
		require.Equal(t, 4, told(r, "warned about a request"), "once for each object")
		require.Len(t, said(server, event), 2)
		r.Stop()
	})
}

// A typo in very many children makes few Events, and no lines without end.
func TestWarnings_OfVeryManyChildren(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		warnOfTypos(server)
		r := rig.Start(t, server, rig.Config(), manyTypos(150))
		r.Create("p", "v")
		rig.Elapse(time.Minute)
		events := said(server, "the API server warned")
		require.Len(t, events, 1)
		require.Contains(t, events[0], " and 81 more")
		require.Equal(t, 101, told(r, "warned about a request"))
		for i := range 20 {
			r.Create(fmt.Sprint("q-", i), "v")
		}
		rig.Elapse(time.Minute)
		require.Len(t, said(server, "the API server warned"), 1, "within an hour")
		require.Len(t, server.List(k8s.ConfigMap), 150*21)
		r.Stop()
	})
}

// What a webhook says of a Secret is nowhere, but that one of our own fields isn't known is.
func TestWarnings_OfSecrets(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		server.SetHooks(fakeapi.Hooks{Warn: func(r fakeapi.Request) []string {
			if r.Type == k8s.Secret && r.Writes() {
				return []string{`unknown field "stringDta"`, `weak password: hunter2`, `unknown field "hunter2"`}
			}
			return nil
		}})
		cfg := rig.Config()
		cfg.Children = []config.Child{{Type: k8s.Secret, Strategy: config.Replace}}
		r := rig.Start(t, server, cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{map[string]any{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}, "stringDta": map[string]any{"password": "hunter2"},
			}}}, nil
		}))
		r.Create("p", "v")
		rig.Elapse(time.Minute)
		require.Len(t, said(server, `the API server warned: unknown field "stringDta": Secret s`), 1)
		require.Len(t, said(server, "the API server warned: (hidden, since it may quote a Secret): Secret s"), 1)
		require.Equal(t, 2, told(r, "warned about a request"))
		require.NotContains(t, r.Logs.String(), "hunter2")
		require.Empty(t, said(server, "hunter2"))
		r.Stop()
	})
}

// A field of the status that the schema doesn't know is a warning about the parent itself. So is
// one in a write that is refused, and there is none where Events aren't written: in a dry run.
func TestWarnings_OfTheStatus(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		server.SetHooks(fakeapi.Hooks{Warn: func(r fakeapi.Request) []string {
			if r.Subresource == "status" {
				return []string{`unknown field "status.value"`}
			}
			return nil
		}})
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("p", "v")
		synctest.Wait()
		require.Len(t, said(server, `the API server warned: unknown field "status.value": Parent p`), 1)
		require.Contains(t, r.Logs.String(), "type="+sample.ParentType().String()+" object=ns/p warning=")
		r.Stop()
	})
}

// A child type that no parent can own is said at the start, not first when a handler returns
// such a child. One that isn't served yet may turn out to have namespaces.
func TestUnownedTypeIsSaid(t *testing.T) {
	const warned = "child type is cluster-scoped, and a parent in a namespace can't own it"
	for name, tc := range map[string]struct {
		cluster bool // the parents are cluster-scoped
		child   config.Child
		want    int
	}{
		"Namespaced": {child: config.Child{Type: k8s.Secret}},
		"Cluster":    {child: config.Child{Type: k8s.Namespace}, want: 1},
		"Unserved":   {child: config.Child{Type: resource.Type{APIVersion: "late.example.com/v1", Kind: "Late"}, Optional: true}},
		"Both":       {cluster: true, child: config.Child{Type: k8s.Namespace}},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				parents := fakeapi.Custom(sample.ParentType(), "parents")
				parents.ClusterScoped = tc.cluster
				server := fakeapi.New(parents, fakeapi.ConfigMaps(), fakeapi.Secrets(), fakeapi.Namespaces())
				cfg := rig.Config()
				tc.child.Strategy = config.Replace
				cfg.Children = append(cfg.Children, tc.child)
				r := rig.Start(t, server, cfg, manyTypos(0))
				require.Equal(t, tc.want, told(r, warned), r.Logs.String())
				r.Stop()
			})
		})
	}
}
