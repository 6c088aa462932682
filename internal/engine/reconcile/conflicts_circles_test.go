package reconcile_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// otherType is the parents' type of a second operator.
func otherType() resource.Type { return resource.Type{APIVersion: "example.com/v1", Kind: "Other"} }

// A company is operators of one process, and the API server that they work on.
type company struct {
	t        *testing.T
	server   *fakeapi.Server
	logs     *rig.Logs
	handlers []*mutual
	cancel   context.CancelFunc
	ended    chan error
}

func newCompany(t *testing.T) *company {
	t.Helper()
	c := &company{t: t, logs: &rig.Logs{}, ended: make(chan error, 1)}
	c.server = fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.Custom(otherType(), "others"), fakeapi.ConfigMaps(), fakeapi.Secrets(), fakeapi.Namespaces())
	c.server.NoteRequests(false)
	return c
}

// start starts the operators, of which one or two are given.
func (c *company) start(one, two config.Operator, handlers ...*mutual) {
	c.t.Helper()
	c.handlers = handlers
	specs := []manager.Spec{{Config: one, Handler: handlers[0]}}
	if len(handlers) > 1 {
		specs = append(specs, manager.Spec{Config: two, Handler: handlers[1]})
	}
	m, err := manager.New(manager.Options{RESTConfig: c.server.RESTConfig(), Logger: slog.New(slog.NewTextHandler(c.logs, nil))}, specs...)
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.t.Cleanup(cancel)
	go func() { c.ended <- m.Start(ctx) }()
	synctest.Wait()
}

func (c *company) stop() {
	c.t.Helper()
	c.cancel()
	require.NoError(c.t, <-c.ended)
}

// create creates objects with this value.
func (c *company) create(of resource.Type, value string, names ...string) {
	c.t.Helper()
	for _, name := range names {
		_, err := c.server.Create(map[string]any{
			"apiVersion": of.APIVersion, "kind": of.Kind, "metadata": map[string]any{"name": name, "namespace": "ns"}, fieldOf(of): map[string]any{"value": value},
		})
		require.NoError(c.t, err)
	}
}

// set gives an object another value.
func (c *company) set(of resource.Type, name string, value any) {
	c.t.Helper()
	_, err := c.server.Change(of, rig.Key(name), func(object map[string]any) { object[fieldOf(of)] = map[string]any{"value": fmt.Sprint(value)} })
	require.NoError(c.t, err)
}

func fieldOf(of resource.Type) string {
	if of == k8s.ConfigMap {
		return "data"
	}
	return "spec"
}

// says returns a number in a field of an object.
func (c *company) says(of resource.Type, name string, path ...string) int64 {
	return amount(c.server.Get(of, rig.Key(name)), path...)
}

func (c *company) calls() (n int64) {
	for _, h := range c.handlers {
		n += h.calls.Load()
	}
	return n
}

func (c *company) loops() int { return strings.Count(c.logs.String(), "conflict loop") }

// amount returns a number that may be written as text, 0 if there is none.
func amount(res *resource.Resource, path ...string) (n int64) {
	if res == nil {
		return 0
	}
	value, _ := res.Field(path...)
	if _, err := fmt.Sscan(fmt.Sprint(value), &n); err != nil {
		return 0
	}
	return n
}

// most returns the largest amount in a field of related objects.
func most(req *handler.SyncRequest, path ...string) (n int64) {
	for res := range req.Related.All() {
		n = max(n, amount(res, path...))
	}
	return n
}

// partner is the other one of a and b.
func partner(p *resource.Resource) string { return map[string]string{"a": "b", "b": "a"}[p.Name()] }

// toPartner refers to the partner's object of this type.
func toPartner(of resource.Type) func(p *resource.Resource) []handler.Ref {
	return func(p *resource.Resource) []handler.Ref { return all(of, partner(p)) }
}

func to(of resource.Type, names ...string) func(p *resource.Resource) []handler.Ref {
	return func(*resource.Resource) []handler.Ref { return all(of, names...) }
}

// statusCounts adds one to the largest status.
func statusCounts(req *handler.SyncRequest) *handler.SyncResponse {
	return &handler.SyncResponse{Status: map[string]any{"n": most(req, "status", "n") + 1}}
}

// stacked is a child that is a parent of the second operator.
func stacked(n any) map[string]any {
	return map[string]any{"apiVersion": otherType().APIVersion, "kind": otherType().Kind, "metadata": map[string]any{"name": "x"}, "spec": map[string]any{"n": n}}
}

// late has the answers to writes come after the watch has told of them.
func late(is func(r fakeapi.Request) bool) fakeapi.Hooks {
	return fakeapi.Hooks{After: func(r fakeapi.Request) error {
		if r.Writes() && is(r) {
			<-time.After(5 * time.Millisecond)
		}
		return nil
	}}
}

// TestCircles: passes that follow from one another without end are slowed down, whatever it is
// that the one writes and the next one sees.
func TestCircles(t *testing.T) {
	type stage struct {
		one, two config.Operator
		handlers []*mutual
		hooks    fakeapi.Hooks
		create   func(c *company)
		begin    func(c *company) // after a second; may be nil
	}
	parents := func(c *company) { c.create(sample.ParentType(), "0", "a", "b") }
	one, two := rig.Config(), rig.Config()
	two.Name, two.Parent = "two", otherType()
	related := func(cfg config.Operator, of ...resource.Type) config.Operator {
		for _, t := range of {
			cfg.Related = append(cfg.Related, config.Related{Type: t})
		}
		return cfg
	}
	stacking := one
	stacking.Children = []config.Child{{Type: otherType(), Strategy: config.Replace}}
	ordered, labelled, same := two, two, one
	ordered.Teardown = config.TeardownOrdered
	labelled.TrackingLabel = "example.com/parent"
	same.Name, same.Domain = "two", "two.example.com"
	slowChild := fakeapi.Hooks{Before: func(r fakeapi.Request) error {
		if r.Writes() && strings.HasSuffix(r.Key.Name, "-slow") {
			<-time.After(30 * time.Millisecond)
		}
		return nil
	}}
	ofChildren := func(mine, others string) *mutual {
		return &mutual{refs: func(p *resource.Resource) []handler.Ref {
			return all(k8s.ConfigMap, p.Name()+others, partner(p)+others)
		}, sync: func(req *handler.SyncRequest) *handler.SyncResponse {
			return wants(rig.Copied(req.Parent.Name()+mine, fmt.Sprint(most(req, "data", "value")+1)))
		}}
	}
	for name, tc := range map[string]struct {
		reason string
		stage  func() stage
	}{
		"Stacked, by the spec": {"the child of one operator is the parent of another, whose child the first one refers to", func() stage {
			return stage{one: related(stacking, k8s.ConfigMap), two: two, create: func(c *company) { c.create(sample.ParentType(), "0", "a") }, handlers: []*mutual{
				{refs: to(k8s.ConfigMap, "cm"), sync: func(req *handler.SyncRequest) *handler.SyncResponse {
					return wants(stacked(most(req, "data", "value") + 1))
				}},
				{sync: func(req *handler.SyncRequest) *handler.SyncResponse {
					return wants(rig.Copied("cm", fmt.Sprint(amount(req.Parent, "spec", "n"))))
				}},
			}}
		}},
		"Stacked, by the status": {"and says in its status what it makes of the first one's", func() stage {
			return stage{one: stacking, two: related(two, sample.ParentType()), create: func(c *company) { c.create(sample.ParentType(), "0", "a") }, handlers: []*mutual{
				{sync: func(req *handler.SyncRequest) *handler.SyncResponse {
					resp := wants(stacked(1))
					for child := range req.Children.All() {
						resp.Status = map[string]any{"n": amount(child, "status", "n") + 1}
					}
					return resp
				}},
				{refs: to(sample.ParentType(), "a"), sync: statusCounts},
			}}
		}},
		"Stacked, coming and going": {"the child goes once its own child is there, which goes with it", func() stage {
			return stage{one: related(stacking, k8s.ConfigMap), two: ordered, create: func(c *company) { c.create(sample.ParentType(), "0", "a") }, handlers: []*mutual{
				{refs: to(k8s.ConfigMap, "cm"), sync: func(req *handler.SyncRequest) *handler.SyncResponse {
					if req.Related.Len() > 0 {
						return wants()
					}
					return wants(stacked(1))
				}},
				{sync: func(*handler.SyncRequest) *handler.SyncResponse { return wants(rig.Copied("cm", "v")) }},
			}}
		}},
		"Late answers": {"the watch tells before the answer to the write has come", func() stage {
			return stage{one: related(one, otherType()), two: related(two, sample.ParentType()), hooks: late(func(r fakeapi.Request) bool { return r.Subresource == "status" }),
				create:   func(c *company) { c.create(sample.ParentType(), "0", "a"); c.create(otherType(), "0", "b") },
				handlers: []*mutual{{refs: toPartner(otherType()), sync: statusCounts}, {refs: toPartner(sample.ParentType()), sync: statusCounts}}}
		}},
		"A slow other child": {"and the operators name their parents in different labels", func() stage {
			both := func(req *handler.SyncRequest) *handler.SyncResponse {
				text := fmt.Sprint(most(req, "data", "value") + 1)
				return wants(rig.Copied(req.Parent.Name(), text), rig.Copied(req.Parent.Name()+"-slow", text))
			}
			return stage{one: related(one, k8s.ConfigMap), two: related(labelled, k8s.ConfigMap), hooks: slowChild,
				create:   func(c *company) { c.create(sample.ParentType(), "0", "a"); c.create(otherType(), "0", "b") },
				handlers: []*mutual{{refs: to(k8s.ConfigMap, "b"), sync: both}, {refs: to(k8s.ConfigMap, "a"), sync: both}}}
		}},
		"Of the same parents": {"two operators have the same type of parents", func() stage {
			return stage{one: related(one, k8s.ConfigMap), two: related(same, k8s.ConfigMap), create: parents, hooks: late(func(r fakeapi.Request) bool { return r.Type == k8s.ConfigMap }),
				handlers: []*mutual{ofChildren("-1", "-2"), ofChildren("-2", "-1")}}
		}},
		"A label": {"takes the child of one parent out of what the other one selects, and into it", func() stage {
			return stage{one: related(one, sample.ParentType(), k8s.ConfigMap), create: parents, handlers: []*mutual{{refs: func(p *resource.Resource) []handler.Ref {
				if p.Name() == "b" {
					return []handler.Ref{{Type: k8s.ConfigMap, Namespace: "ns", Selector: "on=true"}}
				}
				return all(sample.ParentType(), "b")
			}, sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				if req.Parent.Name() == "b" {
					return &handler.SyncResponse{Status: map[string]any{"n": req.Related.Len()}}
				}
				child := rig.Copied("a", "v")
				child["metadata"].(map[string]any)["labels"] = map[string]any{"on": fmt.Sprint(most(req, "status", "n") == 0)}
				return wants(child)
			}}}}
		}},
		"References": {"the status says what the parent refers to, and that what the status is to be", func() stage {
			return stage{one: related(one, k8s.ConfigMap), create: func(c *company) {
				c.create(k8s.ConfigMap, "y", "x")
				c.create(k8s.ConfigMap, "x", "y")
				c.create(sample.ParentType(), "0", "a")
			}, handlers: []*mutual{{refs: func(p *resource.Resource) []handler.Ref {
				if at, _ := p.Field("status", "at"); at == "y" {
					return all(k8s.ConfigMap, "y")
				}
				return all(k8s.ConfigMap, "x")
			}, sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				resp := wants()
				for res := range req.Related.All() {
					next, _ := res.Field("data", "value")
					resp.Status = map[string]any{"at": next}
				}
				return resp
			}}}}
		}},
		"Being deleted": {"what Finalize says of one parent follows from what it says of the other", func() stage {
			return stage{one: related(one, sample.ParentType()), create: parents, begin: func(c *company) {
				for _, name := range []string{"a", "b"} {
					require.NoError(c.t, c.server.Delete(sample.ParentType(), rig.Key(name)))
				}
			}, handlers: []*mutual{{
				refs: toPartner(sample.ParentType()),
				sync: func(*handler.SyncRequest) *handler.SyncResponse {
					return &handler.SyncResponse{Status: map[string]any{"n": 1}}
				},
				finalize: func(req *handler.SyncRequest) *handler.FinalizeResponse {
					return &handler.FinalizeResponse{Status: statusCounts(req).Status, Retry: time.Minute}
				},
			}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				c, s := newCompany(t), tc.stage()
				c.server.SetHooks(s.hooks)
				c.start(s.one, s.two, s.handlers...)
				s.create(c)
				if s.begin != nil {
					rig.Elapse(time.Second)
					s.begin(c)
				}
				rig.Elapse(time.Minute)
				require.Less(t, c.calls(), int64(10_000), "%s: it is found by its rate, that of a status latest", tc.reason)
				require.Positive(t, c.loops(), tc.reason)
				before := c.calls()
				rig.Elapse(10 * time.Minute)
				require.Less(t, c.calls()-before, int64(4*10*30*11/10), "%s: one reconciliation in two seconds of each of up to four parents, and the end of some recreations", tc.reason)
				c.stop()
			})
		})
	}
}

// TestCircles_StayRare: a circle stays slow, with children that are recreated, too; and such a
// child isn't missing while its parent is slowed down.
func TestCircles_StayRare(t *testing.T) {
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				one := rig.Config()
				one.Children[0].Strategy = strategy
				one.Related = []config.Related{{Type: sample.ParentType()}}
				c := newCompany(t)
				c.start(one, one, &mutual{refs: toPartner(sample.ParentType()), sync: func(req *handler.SyncRequest) *handler.SyncResponse {
					resp := statusCounts(req)
					resp.Children = []any{rig.Copied(req.Parent.Name(), fmt.Sprint(most(req, "status", "n")))}
					return resp
				}})
				c.create(sample.ParentType(), "0", "a", "b")
				rig.Elapse(2 * time.Minute)
				before, missing := c.calls(), 0
				for range 3600 {
					rig.Elapse(time.Second)
					if c.server.Get(k8s.ConfigMap, rig.Key("a")) == nil {
						missing++
					}
				}
				require.Less(t, c.calls()-before, int64(2*1800*31/20), "in an hour: one in two seconds of each parent, and another one to end a recreation")
				require.Zero(t, missing)
				c.stop()
			})
		})
	}
}

// TestCircles_Progress: what somebody else sets off is no conflict loop, though parents tell each
// other of it, and takes no longer than a second to come to its end.
func TestCircles_Progress(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		strategy config.UpdateStrategy
		parents  []string
		refs     func(p *resource.Resource) []handler.Ref
		sync     func(req *handler.SyncRequest) *handler.SyncResponse
		edits    int
		every    time.Duration
		edit     func(c *company, i int)
		check    func(c *company)
	}{
		"Dialogues": {
			reason:  "two take fifteen steps in turn after each edit of a third",
			parents: []string{"a", "b", "c"}, edits: 60, every: time.Second,
			refs: func(p *resource.Resource) []handler.Ref {
				if p.Name() == "c" {
					return nil
				}
				return all(sample.ParentType(), partner(p), "c")
			},
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				if req.Parent.Name() == "c" {
					return &handler.SyncResponse{Status: map[string]any{"upto": amount(req.Parent, "spec", "value")}}
				}
				upto := most(req, "status", "upto")
				return &handler.SyncResponse{Status: map[string]any{"n": min(max(most(req, "status", "n")+1, upto-15), upto)}}
			},
			edit:  func(c *company, i int) { c.set(sample.ParentType(), "c", 15*(i+1)) },
			check: func(c *company) { require.EqualValues(c.t, 60*15, c.says(sample.ParentType(), "a", "status", "n")) },
		},
		"A long chain": {
			reason: "each copies the one before", parents: series("p", 100), edits: 60, every: 500 * time.Millisecond,
			refs: func(p *resource.Resource) []handler.Ref {
				if i := indexOf(p); i > 0 {
					return all(sample.ParentType(), fmt.Sprint("p", i-1))
				}
				return nil
			},
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				if indexOf(req.Parent) == 0 {
					return &handler.SyncResponse{Status: map[string]any{"n": amount(req.Parent, "spec", "value")}}
				}
				return &handler.SyncResponse{Status: map[string]any{"n": most(req, "status", "n")}}
			},
			edit:  func(c *company, i int) { c.set(sample.ParentType(), "p0", i) },
			check: func(c *company) { require.EqualValues(c.t, 59, c.says(sample.ParentType(), "p99", "status", "n")) },
		},
		"A hub": {
			reason: "sums what the leaves say, which show the sum, slowly", parents: append(series("p", 10), "hub"), edits: 1000, every: 10 * time.Millisecond,
			refs: func(p *resource.Resource) []handler.Ref {
				if p.Name() == "hub" {
					return []handler.Ref{{Type: sample.ParentType(), Namespace: "ns"}}
				}
				return all(sample.ParentType(), "hub")
			},
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				<-time.After(7 * time.Millisecond)
				if req.Parent.Name() != "hub" {
					return &handler.SyncResponse{Status: map[string]any{"n": amount(req.Parent, "spec", "value"), "sum": most(req, "status", "sum")}}
				}
				var sum int64
				for res := range req.Related.All() {
					sum += amount(res, "status", "n")
				}
				return &handler.SyncResponse{Status: map[string]any{"sum": sum}}
			},
			edit:  func(c *company, i int) { c.set(sample.ParentType(), fmt.Sprint("p", i%10), i) },
			check: func(c *company) { require.EqualValues(c.t, 9945, c.says(sample.ParentType(), "p0", "status", "sum")) },
		},
		"Its own child among all": {
			reason: "the parent refers to all ConfigMaps, and its child is recreated", strategy: config.Recreate, parents: []string{"a"}, edits: 60, every: time.Second,
			refs: func(*resource.Resource) []handler.Ref { return []handler.Ref{{Type: k8s.ConfigMap, Namespace: "ns"}} },
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				resp := wants(rig.Copied("a", fmt.Sprint(amount(req.Parent, "spec", "value"))))
				resp.Status = map[string]any{"n": amount(req.Parent, "spec", "value")}
				return resp
			},
			edit:  func(c *company, i int) { c.set(sample.ParentType(), "a", i) },
			check: func(c *company) { require.EqualValues(c.t, 59, c.says(k8s.ConfigMap, "a", "data", "value")) },
		},
		"Copied labels": {
			reason: "make no child of a related object, as of an EndpointSlice that has those of its Service", parents: []string{"a"}, edits: 60, every: time.Second,
			refs: func(*resource.Resource) []handler.Ref { return all(k8s.ConfigMap, "copy") },
			sync: func(req *handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Status: map[string]any{"n": most(req, "data", "value")}}
			},
			edit: func(c *company, i int) {
				if i == 0 {
					c.create(k8s.ConfigMap, "0", "copy")
				}
				uid := c.server.Get(sample.ParentType(), rig.Key("a")).UID()
				_, err := c.server.Change(k8s.ConfigMap, rig.Key("copy"), func(object map[string]any) {
					object["metadata"].(map[string]any)["labels"] = map[string]any{sample.TrackingLabel: string(uid), "roperator.com/operator": "op"}
					object["data"] = map[string]any{"value": fmt.Sprint(i)}
				})
				require.NoError(c.t, err)
			},
			check: func(c *company) { require.EqualValues(c.t, 59, c.says(sample.ParentType(), "a", "status", "n")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				one := rig.Config()
				one.Related = []config.Related{{Type: sample.ParentType()}, {Type: k8s.ConfigMap}}
				if tc.strategy != "" {
					one.Children[0].Strategy = tc.strategy
				}
				c, h := newCompany(t), &mutual{refs: tc.refs, sync: tc.sync}
				h.calls.Store(-1_000_000)
				c.start(one, one, h)
				c.create(sample.ParentType(), "0", tc.parents...)
				rig.Elapse(2 * time.Second)
				for i := range tc.edits {
					tc.edit(c, i)
					rig.Elapse(tc.every)
				}
				rig.Elapse(time.Second)
				require.Zero(t, c.loops(), tc.reason)
				tc.check(c)
				c.stop()
			})
		})
	}
}

// series returns names that differ in their numbers.
func series(name string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(name, i))
	}
	return names
}

// indexOf returns the number in a name of a series.
func indexOf(p *resource.Resource) (i int) {
	if _, err := fmt.Sscanf(p.Name(), "p%d", &i); err != nil {
		return 0
	}
	return i
}
