package apply_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// thing is a custom type of children.
func thing() resource.Type { return resource.Type{APIVersion: "example.com/v1", Kind: "Thing"} }

// A fixture is a parent on an API server, and what an Executor needs for it.
type fixture struct {
	t        *testing.T
	server   *fakeapi.Server
	settings *catalog.Settings
	parent   *resource.Resource
	store    *store.Store
	slots    chan struct{}
	lessons  *apply.Lessons
	log      bytes.Buffer // what logger has written
	logger   *slog.Logger
	goes     bool                                           // the parent is being deleted or gone
	holder   map[string]any                                 // of exclusive: name -> the value it has
	wrap     func(next http.RoundTripper) http.RoundTripper // nil: nothing stands between
}

// newFixture returns a fixture of a parent in this namespace, "" for a
// cluster-scoped one, whose operator has these types of children.
func newFixture(t *testing.T, namespace string, dryRun bool, children ...config.Child) *fixture {
	t.Helper()
	parents := fakeapi.Custom(sample.ParentType(), "parents")
	parents.ClusterScoped = namespace == ""
	f := &fixture{
		t: t, slots: make(chan struct{}, 100), lessons: &apply.Lessons{},
		server: fakeapi.New(parents, fakeapi.ConfigMaps(), fakeapi.Secrets(), fakeapi.Namespaces(), fakeapi.Custom(thing(), "things"), fakeapi.Custom(k8s.PersistentVolumeClaim, "persistentvolumeclaims")),
	}
	f.logger = slog.New(slog.NewTextHandler(&f.log, nil))
	cfg := defaults.Apply(config.Operator{
		Name: "op", Parent: sample.ParentType(), Children: children, DryRun: dryRun,
		Mappings: []resource.Mapping{{Type: sample.ParentType(), Plural: "parents", ClusterScoped: namespace == ""}},
	})
	kinds, err := catalog.Offline(cfg)
	require.NoError(t, err)
	f.settings = catalog.NewSettings(cfg, handler.SyncFunc(nil), kinds)
	f.store = store.New(cfg.Parent, cfg.TrackingLabel)
	f.parent, err = f.server.Create(map[string]any{
		"apiVersion": cfg.Parent.APIVersion, "kind": cfg.Parent.Kind, "metadata": map[string]any{"name": "p", "namespace": namespace},
	})
	require.NoError(t, err)
	return f
}

// Logger is that of an apply.Owner.
func (f *fixture) Logger() *slog.Logger { return f.logger }

// Goes is that of an apply.Owner.
func (f *fixture) Goes(context.Context) (bool, error) { return f.goes, nil }

// Warned is that of an apply.Owner which ignores warnings.
func (f *fixture) Warned(object.Ref, string) {}

// Changed is that of an apply.Owner without other parents.
func (f *fixture) Changed(store.Change, object.Ref) {}

// child returns an object as a handler returns it.
func child(t resource.Type, name string, data map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": name, "namespace": "ns"}, "data": data,
	}
}

// given creates a child on the server as an earlier pass did, with its mark, and
// returns it as it is after the change, if there is one.
func (f *fixture) given(object map[string]any, change func(o map[string]any)) *resource.Resource {
	f.t.Helper()
	desired, err := plan.Desire(f.settings, f.parent, []any{object}, &plan.ParentMemory{})
	require.NoError(f.t, err)
	body, ok := plan.CreateBody(f.settings, desired[0], f.parent).(map[string]any)
	require.True(f.t, ok)
	live, err := f.server.Create(body)
	require.NoError(f.t, err)
	if change != nil {
		live, err = f.server.Change(live.Type(), live.Key(), change)
		require.NoError(f.t, err)
	}
	f.store.Read(live)
	return live
}

// plan returns the plan by which the live children become the desired ones.
func (f *fixture) plan(live []*resource.Resource, desired ...any) *plan.Plan {
	f.t.Helper()
	memory := &plan.ParentMemory{}
	wanted, err := plan.Desire(f.settings, f.parent, desired, memory)
	require.NoError(f.t, err)
	sorted := slices.Collect(handler.NewChildren(live...).All())
	p := plan.Build(f.settings, plan.Input{Parent: f.parent, Desired: wanted, Children: sorted, Memory: memory})
	return &p
}

// run carries out a plan by an Executor of its own.
func (f *fixture) run(ctx context.Context, p *plan.Plan, terminating ...string) apply.Report {
	f.t.Helper()
	rc := f.server.RESTConfig()
	if f.wrap != nil {
		rc.Transport = f.wrap(rc.Transport)
	}
	link, err := client.Connect(rc, sample.DiscardLog())
	require.NoError(f.t, err)
	c, err := client.New(link, link.As("op", nil), "op", nil, sample.DiscardLog())
	require.NoError(f.t, err)
	c.Track(func(w client.Write) func(*resource.Resource, bool) {
		open := f.store.Begin(store.Request(w))
		return func(live *resource.Resource, ok bool) {
			var r *store.Response
			if ok {
				r = &store.Response{Live: live, Unwatched: live != nil && !f.settings.Watched(live)}
			}
			open.End(r)
		}
	})
	x := &apply.Executor{Settings: f.settings, Client: c, Store: f.store, Slots: f.slots, Lessons: f.lessons, Parent: f.parent, Owner: f}
	report := x.Run(ctx, p, terminating)
	require.Empty(f.t, f.slots, "every slot is free again")
	return report
}

// asked returns the requests so far, those of dry runs with the word "dry". The name
// under which a child is tried is short.
func (f *fixture) asked() []string {
	trial := regexp.MustCompile(`roperator-dry-run-[0-9a-f]{16}`)
	var out []string
	for _, r := range f.server.Requests() {
		text := r.String()
		if r.DryRun {
			text = "dry " + text
		}
		out = append(out, trial.ReplaceAllString(text, "roperator-dry-run"))
	}
	return out
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// admitting lets the server store data.k: 1000m as data.k: 1, in dry runs too. With
// denied, the server answers so to updates.
func (f *fixture) admitting(denied error) {
	f.server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, object map[string]any) error {
		if denied != nil && r.Verb == "update" {
			return denied
		}
		if data, ok := object["data"].(map[string]any); ok && r.Type == k8s.ConfigMap && data["k"] == "1000m" {
			data["k"] = "1"
		}
		return nil
	}})
}
