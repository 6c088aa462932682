package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
	"github.com/roperator/roperator/resource/k8s"
)

func widgetType() resource.Type {
	return resource.Type{APIVersion: "widgets.example.com/v1", Kind: "Widget"}
}

func widgets() fakeapi.Kind { return fakeapi.Custom(widgetType(), "widgets") }

func widget(name, value string) map[string]any {
	return map[string]any{
		"apiVersion": widgetType().APIVersion, "kind": widgetType().Kind,
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"value": value},
	}
}

// serverOfWidgets returns a server that has widgets, served or not yet.
func serverOfWidgets(served bool) *fakeapi.Server {
	server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Secrets(), widgets())
	if !served {
		server.Withdraw(widgetType())
	}
	return server
}

// A maker is a handler that wants a Widget and a ConfigMap of each parent, and notes how many
// children it is shown.
type maker struct {
	mu    sync.Mutex
	calls []string
}

func (m *maker) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, fmt.Sprintf("%s: %d widgets, %d related", req.Parent.Name(), req.Children.OfType(widgetType()).Len(), req.Related.Len()))
	value, _ := req.Parent.Field("spec", "value")
	text, _ := value.(string)
	return &handler.SyncResponse{
		Status:   map[string]any{"widgets": req.Children.OfType(widgetType()).Len()},
		Children: []any{widget(req.Parent.Name(), text), rig.Copied(req.Parent.Name(), value)},
	}, nil
}

func (m *maker) Finalize(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	return &handler.FinalizeResponse{Finalized: true}, nil
}

func (*maker) Finalizes() bool { return false }

// seen returns the calls since the last seen.
func (m *maker) seen() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls
	m.calls = nil
	return calls
}

func optionalWidgets(optional bool) config.Operator {
	cfg := rig.Config()
	cfg.Children = append(cfg.Children, config.Child{Type: widgetType(), Strategy: config.Replace, Optional: optional})
	return cfg
}

// checkOf returns the readiness of a type, "" if nothing is said of it.
func readyOf(r *rig.Rig) string {
	if err := r.Manager.Ready(); err != nil {
		return err.Error()
	}
	return ""
}

// A type is installed, removed and installed again while the operator runs. Its children
// follow; everything else of the response is carried out meanwhile.
func TestServing_OptionalChild(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(false), &maker{}
		r := rig.Start(t, server, optionalWidgets(true), h)
		r.Create("a", "1")
		r.Create("b", "1")
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(k8s.ConfigMap, "a"), "the rest of the response")
		require.Empty(t, readyOf(r), "nothing is wrong")
		require.Equal(t, 1, strings.Count(r.Logs.String(), "type isn't served yet"))
		require.Len(t, said(server, "waiting until the API server serves widgets.example.com/v1/Widget, the type of Widget a"), 1)
		require.Empty(t, r.Errors("a"))
		h.seen()
		observed, _ := r.Get(sample.ParentType(), "a").Field("status", "observedGeneration")
		require.Nil(t, observed, "nobody takes the status for that of a finished pass")

		before := len(server.Requests())
		rig.Elapse(10 * time.Minute)
		require.Empty(t, objects(server.Requests()[before:]), "no request but the discovery")
		require.Empty(t, h.seen())

		server.Serve(widgets())
		rig.Elapse(6 * time.Second)
		for _, name := range []string{"a", "b"} {
			require.NotNil(t, r.Get(widgetType(), name), name)
			observed, _ := r.Get(sample.ParentType(), name).Field("status", "observedGeneration")
			require.EqualValues(t, 1, observed)
		}
		require.Equal(t, 1, strings.Count(r.Logs.String(), "type is served"))
		require.Empty(t, readyOf(r))
		h.seen()
		r.SetSpec("a", "2") // it is watched like any other
		value, _ := r.Get(widgetType(), "a").Field("spec", "value")
		require.Equal(t, "2", value)
		require.NoError(t, server.Delete(widgetType(), rig.Key("b")))
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(widgetType(), "b"))

		server.Withdraw(widgetType())
		rig.Elapse(time.Minute)
		require.Equal(t, 1, strings.Count(r.Logs.String(), "type isn't served any more"))
		require.Contains(t, h.seen(), "a: 0 widgets, 0 related")
		require.Empty(t, readyOf(r))
		r.SetSpec("a", "3")
		value, _ = r.Get(k8s.ConfigMap, "a").Field("data", "value")
		require.Equal(t, "3", value)
		rig.Elapse(time.Hour)
		h.seen()

		server.Serve(widgets())
		rig.Elapse(6 * time.Second)
		for _, name := range []string{"a", "b"} {
			require.NotNil(t, r.Get(widgetType(), name), name)
		}
		rig.Elapse(time.Second)
		h.seen()
		before = len(server.Requests())
		rig.Elapse(time.Hour)
		require.Empty(t, objects(server.Requests()[before:]), "silence")
		require.Empty(t, h.seen())
		r.Stop()
	})
}

// objects returns the requests for objects but watches, Leases and Events.
func objects(requests []fakeapi.Request) []string {
	var out []string
	for _, r := range requests {
		if r.Verb != "watch" && r.Type != fakeapi.Events().Type {
			out = append(out, r.String())
		}
	}
	return out
}

// said returns the notes of the Events that contain a text.
func said(server *fakeapi.Server, text string) (notes []string) {
	for _, event := range server.List(fakeapi.Events().Type) {
		note, _ := event.Field("note")
		if note, ok := note.(string); ok && strings.Contains(note, text) {
			notes = append(notes, note)
		}
	}
	return notes
}

// A type that isn't optional must be served at the start. If it goes later, its children are
// errors until it is back, and nothing else is lost.
func TestServing_RequiredChild(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(false), &maker{}
		err := rig.RunOne(t.Context(), optionalWidgets(false), h, manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()})
		require.ErrorContains(t, err, "widgets.example.com/v1/Widget: the API server doesn't serve this type; install the CustomResourceDefinition")

		server.Serve(widgets())
		r := rig.Start(t, server, optionalWidgets(false), h)
		r.Create("a", "1")
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(widgetType(), "a"))
		server.Withdraw(widgetType())
		rig.Elapse(time.Hour)
		errs := r.Errors("a")
		require.ErrorContains(t, errs[len(errs)-1], "Widget ns/a: create: widgets.example.com/v1/Widget: the API server doesn't serve this type")
		require.Contains(t, readyOf(r), "widgets.example.com/v1/Widget: the API server doesn't serve this type")
		r.SetSpec("a", "2")
		rig.Elapse(time.Second)
		value, _ := r.Get(k8s.ConfigMap, "a").Field("data", "value")
		require.Equal(t, "2", value)
		rig.Elapse(time.Hour)

		server.Serve(widgets())
		rig.Elapse(6 * time.Second) // far less than the backoff by now
		require.NotNil(t, r.Get(widgetType(), "a"))
		require.Empty(t, readyOf(r))
		r.Stop()
	})
}

// A parent that has failed to write such a child for long waits minutes for its next try. When
// the type goes, it learns so at once.
func TestServing_WhoFailsIsDue(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(true), &maker{}
		server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
			if q.Verb == "create" && q.Type == widgetType() {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		}})
		r := rig.Start(t, server, optionalWidgets(true), h)
		r.Create("a", "1")
		rig.Elapse(2 * time.Hour)
		tries := len(r.Errors("a"))
		rig.Elapse(time.Minute)
		require.Len(t, r.Errors("a"), tries, "it waits for its next try")
		h.seen()
		server.Withdraw(widgetType())
		rig.Elapse(6 * time.Second)
		require.NotEmpty(t, h.seen())
		require.Len(t, said(server, "waiting until the API server serves widgets.example.com/v1/Widget, the type of Widget a"), 1)
		r.Stop()
	})
}

// A type that comes back may have another resource name and another scope.
func TestServing_ComesBackAsAnother(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(true), &maker{}
		r := rig.Start(t, server, optionalWidgets(true), h)
		r.Create("a", "1")
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(widgetType(), "a"))
		server.Withdraw(widgetType())
		server.Serve(fakeapi.Custom(widgetType(), "gadgets"))
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(widgetType(), "a"), "under the other name")

		server.Withdraw(widgetType())
		cluster := widgets()
		cluster.ClusterScoped = true
		server.Serve(cluster)
		rig.Elapse(time.Minute)
		errs := r.Errors("a")
		require.ErrorContains(t, errs[len(errs)-1], "the type is cluster-scoped, and a namespaced parent can't own it")

		server.Withdraw(widgetType())
		server.Serve(widgets())
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(widgetType(), "a"))
		r.Stop()
	})
}

// What isn't served for a moment isn't gone: an API server that starts may not know all types
// yet. The children stay as they are, and no handler is shown that there are none.
func TestServing_AwayForAMoment(t *testing.T) {
	for name, hold := range map[string]bool{"Told": false, "CutOff": true} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, h := serverOfWidgets(true), &maker{}
				r := rig.Start(t, server, optionalWidgets(true), h)
				r.Create("a", "1")
				rig.Elapse(time.Second)
				h.seen()
				uid := r.Get(widgetType(), "a").UID()
				var away sync.Map
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if _, ok := away.Load(true); ok && r.Type == widgetType() {
						return apierrors.NewGenericServerResponse(404, r.Verb, schema.GroupResource{}, "", "404 page not found", 0, true)
					}
					return nil
				}})
				away.Store(true, true)
				server.BreakWatches()
				if hold { // nor does the discovery know the type
					server.Hide(widgetType(), true)
				}
				rig.Elapse(8 * time.Second)
				away.Clear()
				server.Hide(widgetType(), false)
				rig.Elapse(time.Minute)
				require.NotContains(t, h.seen(), "a: 0 widgets, 0 related")
				require.NotContains(t, server.Writes(), "delete Widget ns/a")
				require.Equal(t, uid, r.Get(widgetType(), "a").UID())
				r.SetSpec("a", "2")
				value, _ := r.Get(widgetType(), "a").Field("spec", "value")
				require.Equal(t, "2", value)
				r.Stop()
			})
		})
	}
}

// A type whose objects outlast it, as those of an aggregated API server do: no child is written
// before the objects are known again.
func TestServing_ObjectsOutlastTheType(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(true), &maker{}
		r := rig.Start(t, server, optionalWidgets(true), h)
		r.Create("a", "1")
		rig.Elapse(time.Second)
		uid := r.Get(widgetType(), "a").UID()
		away, listed := make(chan struct{}), make(chan struct{})
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Type != widgetType() {
				return nil
			}
			select {
			case <-away: // it is back
				<-listed
				return nil
			default:
				return apierrors.NewGenericServerResponse(404, r.Verb, schema.GroupResource{}, "", "404 page not found", 0, true)
			}
		}})
		server.Hide(widgetType(), true)
		server.BreakWatches()
		rig.Elapse(time.Minute)
		h.seen()
		before := len(server.Writes())
		close(away)
		server.Hide(widgetType(), false)
		rig.Elapse(10 * time.Second)
		r.SetSpec("a", "1.5")
		close(listed)
		rig.Elapse(time.Second)
		calls := h.seen()
		require.Equal(t, "a: 1 widgets, 0 related", calls[len(calls)-1])
		require.NotContains(t, server.Writes()[before:], "create Widget ns/a")
		require.Equal(t, uid, r.Get(widgetType(), "a").UID())
		value, _ := r.Get(widgetType(), "a").Field("spec", "value")
		require.Equal(t, "1.5", value)
		r.Stop()
	})
}

// The watch ends before it has told of the end of the objects. They count as gone all the same
// once the type hasn't been served for a while.
func TestServing_GoneUnseen(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(true), &maker{}
		r := rig.Start(t, server, optionalWidgets(true), h)
		r.Create("a", "1")
		rig.Elapse(time.Second)
		h.seen()
		server.Hold(widgetType())
		server.Withdraw(widgetType())
		rig.Elapse(time.Minute)
		require.Equal(t, []string{"a: 0 widgets, 0 related"}, slices.Compact(h.seen()))
		server.Release()
		server.Serve(widgets())
		rig.Elapse(6 * time.Second)
		require.NotNil(t, r.Get(widgetType(), "a"))
		r.Stop()
	})
}

// A late type that may not be watched stops nobody: the log and the readiness name the rule, and
// its children come once it is given.
func TestServing_LateAndForbidden(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(false), &maker{}
		var given sync.Map
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if _, ok := given.Load(true); !ok && r.Type == widgetType() {
				return apierrors.NewForbidden(schema.GroupResource{Group: "widgets.example.com", Resource: "widgets"}, "", nil)
			}
			return nil
		}})
		r := rig.Start(t, server, optionalWidgets(true), h)
		r.Create("a", "1")
		server.Serve(widgets())
		rig.Elapse(time.Minute)
		const rule = `add the rule {apiGroups: ["widgets.example.com"], resources: ["widgets"], verbs: ["`
		require.Contains(t, readyOf(r), rule)
		require.Contains(t, r.Logs.String(), "type can't be watched, retrying")
		require.NotNil(t, r.Get(k8s.ConfigMap, "a"))
		given.Store(true, true)
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(widgetType(), "a"))
		require.Empty(t, readyOf(r))
		r.Stop()
	})
}

// What another program has made for a parent before a type was watched is found when the type
// comes, also if that takes a while.
func TestServing_LateAndUnlabelled(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(false), &maker{}
		var failed atomic.Int32
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Type == widgetType() && r.Verb == "list" && failed.Add(1) < 4 {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		}})
		cfg := optionalWidgets(true)
		cfg.Children[1].Adopt = true
		r := rig.Start(t, server, cfg, h)
		parent := r.Create("a", "1")
		rig.Elapse(time.Second)
		server.Serve(widgets())
		object := widget("unlabelled", "1")
		object["metadata"] = map[string]any{"name": "unlabelled", "namespace": "ns", "ownerReferences": []any{map[string]any{
			"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "name": "a", "uid": string(parent.UID()), "controller": true,
		}}}
		create(t, server, object)
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(widgetType(), "a"))
		require.Nil(t, r.Get(widgetType(), "unlabelled"), "it was taken over, and isn't desired")
		r.Stop()
	})
}

// Related objects of a type that comes and goes.
func TestServing_OptionalRelated(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(false), &reader{}
		cfg := rig.Config()
		cfg.Related = []config.Related{{Type: widgetType(), Fields: []string{"spec.value"}, Optional: true}}
		r := rig.Start(t, server, cfg, h)
		r.Create("p", "one")
		rig.Elapse(time.Minute)
		require.Equal(t, []string{""}, h.seen("p"), "there are none")
		require.Empty(t, readyOf(r))
		require.Zero(t, r.Manager.Engine().Sizes()["related watches"])

		server.Serve(widgets())
		object := widget("one", "1")
		object["metadata"] = map[string]any{"name": "one", "namespace": "ns"}
		create(t, server, object)
		rig.Elapse(6 * time.Second)
		require.Equal(t, []string{"one=<nil>"}, h.seen("p"))
		require.Equal(t, 1, r.Manager.Engine().Sizes()["related watches"])

		server.Hold(widgetType()) // nobody tells of the end of the object
		server.Withdraw(widgetType())
		rig.Elapse(time.Minute)
		require.Equal(t, []string{""}, h.seen("p"))
		require.Zero(t, r.Manager.Engine().Sizes()["related watches"])
		server.Release()
		r.Create("q", "one")
		rig.Elapse(time.Minute)
		require.Equal(t, []string{""}, h.seen("q"))

		server.Serve(widgets())
		create(t, server, object)
		rig.Elapse(6 * time.Second)
		require.Equal(t, []string{"one=<nil>"}, h.seen("p"))
		require.Equal(t, []string{"one=<nil>"}, h.seen("q"))
		r.Stop()
	})
}

// Many watches of a type that has gone ask for it in turn, so that somebody asks all the time. That puts off no look
// at the types that aren't served.
func TestServing_ManyDoubts(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(true), &reader{}
		cfg := rig.Config()
		cfg.Related = []config.Related{{Type: widgetType(), Fields: []string{"spec.value"}, Optional: true}}
		r := rig.Start(t, server, cfg, h)
		r.Create("p", "one")
		rig.Elapse(time.Minute)
		server.Withdraw(widgetType())
		for i := range 60 { // each has a watch of its own
			r.Create(fmt.Sprint("p", i), fmt.Sprint("w", i))
			rig.Elapse(time.Second)
		}
		require.Equal(t, []string{""}, h.seen("p7"), "the type counts as gone, and so there are none")
		server.Serve(widgets())
		rig.Elapse(6 * time.Second)
		r.Create("new", "w7")
		rig.Elapse(time.Second)
		require.NotEmpty(t, h.seen("new"))
		require.Positive(t, r.Manager.Engine().Sizes()["related watches"], "it is back")
		r.Stop()
	})
}

// A related type that isn't optional must be served at the start. If it goes later, parents keep
// what they were shown, and those that need more fail until it is back.
func TestServing_RequiredRelated(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(false), &reader{}
		cfg := rig.Config()
		cfg.Related = []config.Related{{Type: widgetType(), Fields: []string{"spec.value"}}}
		err := rig.RunOne(t.Context(), cfg, h, manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()})
		require.ErrorContains(t, err, "widgets.example.com/v1/Widget: the API server doesn't serve this type")

		server.Serve(widgets())
		r := rig.Start(t, server, cfg, h)
		r.Create("p", "one")
		rig.Elapse(time.Second)
		require.Equal(t, []string{""}, h.seen("p"))
		server.Withdraw(widgetType())
		r.Create("q", "two")
		rig.Elapse(time.Minute)
		require.Empty(t, h.seen("q"))
		require.ErrorContains(t, r.Errors("q")[0], "the API server doesn't serve the type")
		require.Contains(t, readyOf(r), "Widget ns/one")

		server.Serve(widgets())
		rig.Elapse(6 * time.Second)
		require.Equal(t, []string{""}, h.seen("q"))
		require.Empty(t, readyOf(r))
		r.Stop()
	})
}

// A type is a child and related at once. A parent whose pass began while it wasn't served
// isn't shown "not there" for long.
func TestServing_ChildAndRelated(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(false), &maker{}
		cfg := optionalWidgets(true)
		cfg.Related = []config.Related{{Type: widgetType(), Fields: []string{"spec.value"}, Optional: true}}
		r := rig.Start(t, server, cfg, h)
		r.Create("a", "b")
		r.Create("b", "a")
		rig.Elapse(time.Second)
		server.Serve(widgets())
		rig.Elapse(6 * time.Second)
		calls := h.seen()
		require.Contains(t, calls, "a: 1 widgets, 1 related")
		require.Contains(t, calls, "b: 1 widgets, 1 related")
		server.Withdraw(widgetType())
		rig.Elapse(time.Minute)
		calls = h.seen()
		require.Equal(t, "0 widgets, 0 related", strings.SplitN(calls[len(calls)-1], ": ", 2)[1])
		server.Serve(widgets())
		rig.Elapse(6 * time.Second)
		require.NotNil(t, r.Get(widgetType(), "a"))
		r.Stop()
	})
}

// A pass begins before a type is served, and goes on when the parents that wait for the type
// have been named. It is repeated.
func TestServing_ComesDuringAPass(t *testing.T) {
	t.Run("Child", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			server, held := serverOfWidgets(false), make(chan struct{})
			r := rig.Start(t, server, optionalWidgets(true), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				<-held
				return &handler.SyncResponse{Children: []any{widget("a", "1")}}, nil // nothing else whose answer would lead to a pass
			}))
			r.Create("a", "1")
			rig.Elapse(time.Second)
			server.Serve(widgets())
			rig.Elapse(time.Minute)
			close(held)
			rig.Elapse(time.Second)
			require.NotNil(t, r.Get(widgetType(), "a"))
			r.Stop()
		})
	})
	t.Run("Related", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			server, held := serverOfWidgets(false), make(chan struct{})
			h := &reader{relate: func(*resource.Resource) ([]handler.Ref, error) {
				<-held
				return []handler.Ref{{Type: widgetType(), Name: "one"}}, nil
			}}
			cfg := rig.Config()
			cfg.Related = []config.Related{{Type: widgetType(), Optional: true}}
			r := rig.Start(t, server, cfg, h)
			r.Create("p", "1")
			rig.Elapse(time.Second)
			server.Serve(widgets())
			object := widget("one", "1")
			object["metadata"] = map[string]any{"name": "one", "namespace": "ns"}
			create(t, server, object)
			rig.Elapse(time.Minute)
			close(held)
			rig.Elapse(time.Second)
			require.Equal(t, []string{"one=<nil>"}, h.seen("p"))
			r.Stop()
		})
	})
}

// The type is served at the start and withdrawn before its first list. The start doesn't hang.
func TestServing_GoneDuringTheStart(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(true), &maker{}
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Type == widgetType() {
				server.Withdraw(widgetType())
				return apierrors.NewGenericServerResponse(404, r.Verb, schema.GroupResource{}, "", "404 page not found", 0, true)
			}
			return nil
		}})
		r := rig.Start(t, server, optionalWidgets(true), h)
		r.Create("a", "1")
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(k8s.ConfigMap, "a"))
		server.SetHooks(fakeapi.Hooks{})
		server.Serve(widgets())
		rig.Elapse(6 * time.Second)
		require.NotNil(t, r.Get(widgetType(), "a"))
		synctest.Wait()
		r.Stop()
	})
}

// Where a type isn't served, and another version of it is, that version is named: at the start,
// while it is waited for, and when an upgrade takes the version away from a running operator.
func TestServing_OtherVersion(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		newer := widgets()
		newer.Type.APIVersion = "widgets.example.com/v2"
		server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Secrets(), widgets(), newer)
		server.Withdraw(widgetType())
		err := rig.RunOne(t.Context(), optionalWidgets(false), &maker{}, manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()})
		require.ErrorContains(t, err, "widgets.example.com/v1/Widget: the API server doesn't serve this type, but serves widgets.example.com/v2/Widget; configure that version, or")

		r := rig.Start(t, server, optionalWidgets(true), &maker{})
		r.Create("a", "1")
		rig.Elapse(time.Second)
		require.Contains(t, r.Logs.String(), `msg="type isn't served yet" controller=op type=widgets.example.com/v1/Widget served=widgets.example.com/v2/Widget`)
		require.Len(t, said(server, "waiting until the API server serves widgets.example.com/v1/Widget, the type of Widget a; it serves widgets.example.com/v2/Widget"), 1)
		r.Stop()

		server.Serve(widgets())
		r = rig.Start(t, server, optionalWidgets(false), &maker{})
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(widgetType(), "a"))
		server.Withdraw(widgetType())
		r.SetSpec("a", "2")
		rig.Elapse(time.Minute)
		require.Contains(t, readyOf(r), "but serves widgets.example.com/v2/Widget")
		errs := r.Errors("a")
		require.ErrorContains(t, errs[len(errs)-1], "but serves widgets.example.com/v2/Widget; configure that version")
		r.Stop()
	})
}
