package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func gadgetType() resource.Type {
	return resource.Type{APIVersion: "gadgets.example.com/v1", Kind: "Gadget"}
}

// A comedy is a random history of types that come and go under an operator whose parents have
// a Widget each, and refer to Gadgets.
type comedy struct {
	t      *testing.T
	rnd    *rand.Rand
	server *fakeapi.Server
	cfg    config.Operator
	op     *rig.Rig
	away   map[resource.Type]bool
	faults atomic.Int32 // how many more requests for Widgets and Gadgets fail
	story  []string
}

func newComedy(t *testing.T, seed uint64) *comedy {
	t.Helper()
	c := &comedy{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), away: map[resource.Type]bool{}}
	c.server = fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Custom(widgetType(), "widgets"), fakeapi.Custom(gadgetType(), "gadgets"))
	optional := c.rnd.IntN(3) > 0
	c.cfg = rig.Config()
	c.cfg.MaxErrorBackoff = 30 * time.Second
	c.cfg.Children = append(c.cfg.Children, config.Child{Type: widgetType(), Strategy: config.Replace, Optional: optional})
	c.cfg.Related = []config.Related{{Type: gadgetType(), Fields: []string{"spec.value"}, Optional: c.rnd.IntN(3) > 0}}
	if c.rnd.IntN(3) == 0 {
		c.cfg.Related = append(c.cfg.Related, config.Related{Type: widgetType(), Fields: []string{"spec.value"}, Optional: optional})
	}
	return c
}

// Sync wants a Widget and a ConfigMap, both of which say what is related.
func (c *comedy) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	var names []string
	for res := range req.Related.OfType(gadgetType()).All() {
		value, _ := res.Field("spec", "value")
		names = append(names, fmt.Sprintf("%s=%v", res.Name(), value))
	}
	text := strings.Join(names, " ")
	return &handler.SyncResponse{
		Status:   map[string]any{"widgets": req.Children.OfType(widgetType()).Len(), "related": text},
		Children: []any{widget(req.Parent.Name(), text), rig.Copied(req.Parent.Name(), text)},
	}, nil
}

func (c *comedy) pick(names ...string) string { return names[c.rnd.IntN(len(names))] }

// fail is the fault of a request.
func (c *comedy) fail(r fakeapi.Request) error {
	if r.Type != widgetType() && r.Type != gadgetType() {
		return nil
	}
	left := c.faults.Add(-1)
	if left < 0 {
		return nil
	}
	switch left % 3 {
	case 0:
		return apierrors.NewGenericServerResponse(404, r.Verb, schema.GroupResource{}, "", "404 page not found", 0, true)
	case 1:
		return apierrors.NewInternalError(errors.New("not now"))
	}
	return errors.New("connection reset")
}

func (c *comedy) begin() {
	c.op = rig.Start(c.t, c.server, c.cfg, handler.SyncFunc(c.Sync))
}

// served says whether the operator can start.
func (c *comedy) served() bool { return !c.away[widgetType()] && !c.away[gadgetType()] }

func (c *comedy) step() {
	t, name := widgetType(), c.pick("a", "b", "c")
	if c.rnd.IntN(2) == 0 {
		t = gadgetType()
	}
	what := c.pick("come", "come", "go", "go unseen", "hide", "show", "parent", "refer", "delete parent", "object", "object", "delete object", "break", "compact", "faults", "restart", "wait")
	c.story = append(c.story, fmt.Sprintf("%s %s %s", what, t.Kind, name))
	var err error
	switch what {
	case "come":
		if c.away[t] {
			c.server.Release(t)
			c.server.Serve(fakeapi.Custom(t, strings.ToLower(t.Kind)+c.pick("s", "en")))
			delete(c.away, t)
		}
	case "go unseen":
		c.server.Hold(t)
		fallthrough
	case "go":
		c.server.Withdraw(t)
		c.away[t] = true
	case "hide", "show":
		c.server.Hide(t, what == "hide")
	case "parent":
		if c.op.Get(sample.ParentType(), name) == nil {
			rig.CreateParent(c.t, c.server, name, c.pick("a", "b", "c"))
		}
	case "refer":
		if c.op.Get(sample.ParentType(), name) != nil {
			_, err = c.server.Change(sample.ParentType(), rig.Key(name), func(o map[string]any) { o["spec"] = map[string]any{"value": c.pick("a", "b", "c")} })
		}
	case "delete parent":
		if c.op.Get(sample.ParentType(), name) != nil {
			err = c.server.Delete(sample.ParentType(), rig.Key(name))
			c.server.CollectGarbage()
		}
	case "object":
		err = c.object(t, name)
	case "delete object":
		if c.op.Get(t, name) != nil {
			err = c.server.Delete(t, rig.Key(name))
		}
	case "break":
		c.server.BreakWatches()
	case "compact":
		c.server.Compact()
	case "faults":
		c.faults.Store(int32(c.rnd.IntN(12)))
	case "restart":
		if c.served() {
			c.show()
			c.op.Stop()
			c.begin()
		}
	}
	require.NoError(c.t, err)
	rig.Elapse(time.Duration(c.rnd.IntN(c.pickLimit())) * time.Millisecond)
}

// pickLimit returns for how many milliseconds a step may last.
func (c *comedy) pickLimit() int { return []int{1, 50, 1000, 8000, 30000}[c.rnd.IntN(5)] }

// object creates or changes a Gadget, or has somebody change a Widget.
func (c *comedy) object(t resource.Type, name string) error {
	value := c.pick("1", "2", "3")
	switch {
	case c.away[t]:
		return nil
	case c.op.Get(t, name) != nil:
		_, err := c.server.Change(t, rig.Key(name), func(o map[string]any) { o["spec"] = map[string]any{"value": value} })
		return err
	case t == widgetType():
		return nil
	}
	_, err := c.server.Create(map[string]any{
		"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": name, "namespace": "ns"}, "spec": map[string]any{"value": value},
	})
	return err
}

// show has the discovery tell of all types.
func (c *comedy) show() {
	c.server.Hide(widgetType(), false)
	c.server.Hide(gadgetType(), false)
}

// end serves all types without a fault, and checks that all is as it should be, and silent.
func (c *comedy) end() {
	t := c.t
	c.faults.Store(0)
	c.server.Release()
	c.show()
	for of := range c.away {
		c.server.Serve(fakeapi.Custom(of, strings.ToLower(of.Kind)+"s"))
	}
	rig.Elapse(5 * time.Minute)
	c.server.CollectGarbage()
	rig.Elapse(time.Minute)
	before := len(c.server.Requests())
	for _, name := range []string{"a", "b", "c"} {
		parent := c.op.Get(sample.ParentType(), name)
		if parent == nil {
			require.Nil(t, c.op.Get(widgetType(), name), name)
			continue
		}
		want := ""
		if refers, _ := parent.Field("spec", "value"); refers != nil {
			if gadget := c.op.Get(gadgetType(), refers.(string)); gadget != nil {
				value, _ := gadget.Field("spec", "value")
				want = fmt.Sprintf("%v=%v", refers, value)
			}
		}
		require.NotNil(t, c.op.Get(widgetType(), name), "Widget %s", name)
		value, _ := c.op.Get(widgetType(), name).Field("spec", "value")
		require.Equal(t, want, value, "Widget %s", name)
		value, _ = c.op.Get(k8s.ConfigMap, name).Field("data", "value")
		require.Equal(t, want, value, "ConfigMap %s", name)
		observed, _ := parent.Field("status", "observedGeneration")
		require.EqualValues(t, parent.Generation(), observed, name)
		status, _ := parent.Field("status", "widgets")
		require.EqualValues(t, 1, status, name)
	}
	require.Empty(t, readyOf(c.op))
	rig.Elapse(time.Hour)
	require.Empty(t, objects(c.server.Requests()[before:]), "silence")
	c.op.Stop()
}

// Whatever order types come and go in, everything is as it should be in the end. SERVING_FIRST
// and SERVING_COUNT choose the seeds.
func TestServing_Property(t *testing.T) {
	first, count := budget.FromEnv(t, "SERVING_FIRST", 1), budget.Count(t, "SERVING_COUNT", 150)
	for seed := first; seed < first+count && !t.Failed(); seed++ {
		var c *comedy
		rig.Bubble(t, func(t *testing.T) {
			c = newComedy(t, seed)
			c.server.SetHooks(fakeapi.Hooks{Before: c.fail})
			c.begin()
			rig.CreateParent(t, c.server, "a", "a")
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, %+v:\n%s\n%s", seed, c.cfg, strings.Join(c.story, "\n"), c.op.Logs)
					c.op.Cancel()
				}
			}()
			for range 3 + c.rnd.IntN(25) {
				c.step()
			}
			c.end()
		})
	}
}
