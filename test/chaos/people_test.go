package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// A resourceName is what the API server calls a kind.
type resourceName = schema.GroupVersionResource

func parents() resourceName {
	return resourceName{Group: "chaos.roperator.com", Version: "v1", Resource: "parents"}
}
func configMaps() resourceName { return resourceName{Version: "v1", Resource: "configmaps"} }
func secrets() resourceName    { return resourceName{Version: "v1", Resource: "secrets"} }
func services() resourceName   { return resourceName{Version: "v1", Resource: "services"} }

func childResources() []resourceName { return []resourceName{configMaps(), secrets(), services()} }

// held is the finalizer that people put on parents and children.
const held = "example.com/held"

// People change parents and children, as administrators whom no fault hits but
// those of the control plane.
type people struct {
	api     dynamic.Interface
	parents int // how many names there are
	changes atomic.Int64
}

func newPeople(cfg *rest.Config, count int) (*people, error) {
	cfg.Timeout = time.Minute // for an answer that doesn't come
	api, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &people{api: api, parents: count}, nil
}

func (p *people) of(r resourceName) dynamic.ResourceInterface {
	return p.api.Resource(r).Namespace(namespace)
}

// create makes a parent, unless there is one of this name.
func (p *people) create(ctx context.Context, i int, rng *rand.Rand) error {
	_, err := p.of(parents()).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": parentType().APIVersion, "kind": parentType().Kind,
		"metadata": map[string]any{"name": parentName(i)}, "spec": someSpec(rng),
	}}, metav1.CreateOptions{})
	return err
}

func parentName(i int) string { return fmt.Sprintf("p%03d", i) }

func someSpec(rng *rand.Rand) map[string]any {
	return map[string]any{"value": fmt.Sprint("v", rng.IntN(1000)), "port": int64(1000 + rng.IntN(1000))}
}

// work makes changes until ctx ends. That one fails is told to nobody: the
// object has gone, say, or the API server has.
func (p *people) work(ctx context.Context, rng *rand.Rand, pause time.Duration) {
	for pauseFor(ctx, pause/2+time.Duration(rng.Int64N(int64(pause)))) {
		if p.change(ctx, rng) == nil {
			p.changes.Add(1)
		}
	}
}

func (p *people) change(ctx context.Context, rng *rand.Rand) error {
	i := rng.IntN(p.parents)
	name := parentName(i)
	switch rng.IntN(14) {
	case 0, 1, 2, 3:
		return p.merge(ctx, parents(), name, map[string]any{"spec": someSpec(rng)})
	case 4, 5:
		how := metav1.DeletePropagationBackground
		if rng.IntN(4) == 0 {
			how = metav1.DeletePropagationForeground
		}
		err := p.of(parents()).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &how})
		_ = p.create(ctx, rng.IntN(p.parents), rng) // if it has gone
		return err
	case 6, 7:
		return p.create(ctx, i, rng)
	}
	r, child, err := p.child(ctx, name, rng)
	if err != nil {
		return err
	}
	switch rng.IntN(6) {
	case 0, 1:
		return p.of(r).Delete(ctx, child.GetName(), metav1.DeleteOptions{})
	case 2:
		if r == secrets() { // its name changes: without its labels, nobody would know whose it was
			return p.merge(ctx, r, child.GetName(), map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": nil}}})
		}
		return p.merge(ctx, r, child.GetName(), map[string]any{"metadata": map[string]any{"labels": nil}})
	case 3:
		return p.finalizers(ctx, r, child, rng.IntN(2) == 0)
	case 4:
		parent, err := p.of(parents()).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return p.finalizers(ctx, parents(), parent, rng.IntN(2) == 0)
	default:
		return p.revert(ctx, r, child, rng)
	}
}

// child chooses one of a parent's.
func (p *people) child(ctx context.Context, name string, rng *rand.Rand) (resourceName, *unstructured.Unstructured, error) {
	r := childResources()[rng.IntN(3)]
	list, err := p.of(r).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return r, nil, err
	}
	if len(list.Items) == 0 {
		return r, nil, fmt.Errorf("%s has no %s", name, r.Resource)
	}
	return r, &list.Items[rng.IntN(len(list.Items))], nil
}

// revert changes what the operator has set.
func (p *people) revert(ctx context.Context, r resourceName, child *unstructured.Unstructured, rng *rand.Rand) error {
	patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "other", "roperator.com/parent-uid": child.GetLabels()["roperator.com/parent-uid"]}}}
	switch r {
	case configMaps():
		patch = map[string]any{"data": map[string]any{"value": fmt.Sprint("other", rng.IntN(100))}}
	case secrets():
		patch = map[string]any{"data": map[string]any{"key": "b3RoZXI="}}
	case services():
		if rng.IntN(2) == 0 {
			patch = map[string]any{"spec": map[string]any{"selector": map[string]any{"value": "other"}}}
		}
	}
	return p.merge(ctx, r, child.GetName(), patch)
}

// finalizers adds held to an object, or takes it off.
func (p *people) finalizers(ctx context.Context, r resourceName, obj *unstructured.Unstructured, add bool) error {
	keep := []any{}
	for _, f := range obj.GetFinalizers() {
		if f != held {
			keep = append(keep, f)
		}
	}
	if add {
		keep = append(keep, held)
	}
	return p.merge(ctx, r, obj.GetName(), map[string]any{"metadata": map[string]any{
		"finalizers": keep, "resourceVersion": obj.GetResourceVersion(), // or others' would get lost
	}})
}

func (p *people) merge(ctx context.Context, r resourceName, name string, patch map[string]any) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = p.of(r).Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{})
	return err
}

// release takes held off every object.
func (p *people) release(ctx context.Context) error {
	for _, r := range append(childResources(), parents()) {
		list, err := p.of(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			for _, f := range list.Items[i].GetFinalizers() {
				if f != held {
					continue
				}
				if err := p.finalizers(ctx, r, &list.Items[i], false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// plant puts objects there that aren't the operator's, though some look alike.
// They are returned by UID, with their resourceVersions.
func (p *people) plant(ctx context.Context) (map[types.UID]string, error) {
	owner, err := p.of(configMaps()).Create(ctx, foreign("owner", nil, nil), metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	labels := map[string]any{"roperator.com/operator": operatorName, "roperator.com/parent-uid": "00000000-0000-0000-0000-000000000000"}
	planted := map[types.UID]string{owner.GetUID(): owner.GetResourceVersion()}
	for _, obj := range []*unstructured.Unstructured{
		foreign("plain", nil, nil),
		foreign("copied", labels, nil),
		foreign("owned", labels, []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": owner.GetName(), "uid": string(owner.GetUID()), "controller": true, "blockOwnerDeletion": true,
		}}),
	} {
		made, err := p.of(configMaps()).Create(ctx, obj, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		planted[made.GetUID()] = made.GetResourceVersion()
	}
	service, err := p.of(services()).Get(ctx, "kubernetes", metav1.GetOptions{}) // the API server's own
	if err != nil {
		return nil, err
	}
	planted[service.GetUID()] = service.GetResourceVersion()
	return planted, nil
}

func foreign(name string, labels map[string]any, owners []any) *unstructured.Unstructured {
	meta := map[string]any{"name": "foreign-" + name}
	if labels != nil {
		meta["labels"] = labels
	}
	if owners != nil {
		meta["ownerReferences"] = owners
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": map[string]any{"value": "foreign"},
	}}
}
