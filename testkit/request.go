package testkit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/runner"
)

// Request returns a request for a handler that a test calls itself, without a cluster: what the
// operator would ask about a parent and its children. [Sync] is for what the operator would do
// then.
//
// The objects are as for Sync, and what an API server would have set is filled in as there; the
// handler isn't known here, so that a finalizer is filled in only for config.FinalizerAlways,
// and of what [Related] returns, all objects are in the request. A test that is about a deletion
// gives a parent with a deletionTimestamp. LastErrors may be set afterwards. Children of types
// that cfg doesn't have, and a cfg that no operator would start with, fail the test.
func Request(t testing.TB, cfg config.Operator, parent any, children ...any) *handler.SyncRequest {
	t.Helper()
	_, req, err := requestFor(t, cfg, handler.SyncFunc(noSync), parent, children)
	if err != nil {
		t.Fatalf("testkit: request: %v", err)
	}
	return req
}

// noSync stands for the handler where none is called.
func noSync(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
	return &handler.SyncResponse{KeepChildren: true}, nil
}

// An offline is an operator without an API server, and one parent of it.
type offline struct {
	t       testing.TB
	planner *reconcile.OfflinePlanner
	parent  *resource.Resource
}

// requestFor returns the request about a parent, with what an API server and the engine would have
// set in the objects. All related objects are in it.
func requestFor(t testing.TB, cfg config.Operator, h handler.Handler, parent any, children []any) (*offline, *handler.SyncRequest, error) {
	planner, err := offlinePlanner(cfg, h)
	if err != nil {
		return nil, nil, err
	}
	o := &offline{t: t, planner: planner}
	if o.parent, err = o.observedParent(cfg, parent); err != nil {
		return nil, nil, fmt.Errorf("parent: %w", err)
	}
	observed := make([]*resource.Resource, 0, len(children))
	var related []*resource.Resource
	for i, child := range children {
		if objects, ok := child.(relatedObjects); ok {
			more, err := o.observedRelated(cfg, objects)
			if err != nil {
				return nil, nil, err
			}
			related = append(related, more...)
			continue
		}
		res, err := o.observedChild(cfg, child)
		if err != nil {
			return nil, nil, fmt.Errorf("child %d: %w", i, err)
		}
		observed = append(observed, res)
	}
	return o, &handler.SyncRequest{Parent: o.parent, Children: handler.NewChildren(observed...), Related: handler.NewObjects(related...)}, nil
}

// offlinePlanner returns the engine up to its first request.
func offlinePlanner(cfg config.Operator, h handler.Handler) (*reconcile.OfflinePlanner, error) {
	// A runner is made for what it finds wrong.
	if _, err := runner.New(cfg, h, runner.Options{RESTConfig: &rest.Config{}}); err != nil {
		return nil, err
	}
	return reconcile.NewOfflinePlanner(defaults.Apply(cfg), h)
}

// observedParent fills in what an API server and the engine would have set.
func (o *offline) observedParent(cfg config.Operator, parent any) (*resource.Resource, error) {
	object, err := encode.Map(parent)
	if err != nil {
		return nil, err
	}
	if t := typeOf(object); t != cfg.Parent {
		return nil, fmt.Errorf("it is a %s, not a %s", t, cfg.Parent)
	}
	meta := o.fill(object, cfg.Parent, "default")
	if finalizer := o.planner.Finalizer(); finalizer != "" {
		held, _ := meta["finalizers"].([]any)
		if !slices.Contains(held, any(finalizer)) {
			meta["finalizers"] = append(held, finalizer)
		}
	}
	if meta["generation"] == nil {
		meta["generation"] = int64(1)
		if status, ok := object["status"].(map[string]any); ok {
			o.planner.CompleteStatus(status, 1)
		}
	}
	return resource.New(object)
}

func (o *offline) observedChild(cfg config.Operator, child any) (*resource.Resource, error) {
	object, err := encode.Map(child)
	if err != nil {
		return nil, err
	}
	t := typeOf(object)
	if !slices.ContainsFunc(cfg.Children, func(c config.Child) bool { return c.Type == t }) {
		return nil, fmt.Errorf("%s isn't one of the operator's child types", t)
	}
	o.fill(object, t, o.parent.Namespace())
	o.planner.Adopt(object, o.parent)
	return resource.New(object)
}

// fill fills in the metadata that every object has.
func (o *offline) fill(object map[string]any, t resource.Type, namespace string) map[string]any {
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		object["metadata"] = meta
	}
	namespaced, guessed := o.planner.Namespaced(t)
	if guessed {
		o.t.Logf("testkit: %s is taken for namespaced; if it isn't, say so in config.Operator.Mappings", t)
	}
	if set, _ := meta["namespace"].(string); namespaced && set == "" && namespace != "" {
		meta["namespace"] = namespace
	}
	if set, _ := meta["uid"].(string); set == "" {
		meta["uid"] = strings.ToLower(t.Kind) + "-" + fmt.Sprint(meta["name"])
	}
	if set, _ := meta["resourceVersion"].(string); set == "" {
		meta["resourceVersion"] = "1"
	}
	return meta
}

func typeOf(object map[string]any) resource.Type {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return resource.Type{APIVersion: version, Kind: kind}
}
