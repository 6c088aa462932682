package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

const (
	echoKind    = "EchoServer"
	podKind     = "Pod"
	serviceKind = "Service"
)

// kinds are what the world consists of.
func kinds() map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		echoKind:    {Group: "example.roperator.com", Version: "v1alpha1", Resource: "echoservers"},
		podKind:     {Version: "v1", Resource: "pods"},
		serviceKind: {Version: "v1", Resource: "services"},
	}
}

// An id names an object of the demo's namespace.
type id struct{ kind, name string }

// A world is what the demo sees of the cluster: it prints every change, and
// lets the story wait for one.
type world struct {
	screen *screen
	mu     struct {
		sync.Mutex
		objects map[id]*unstructured.Unstructured
		changed chan struct{} // closed at the next change
	}
}

// watchWorld returns when the watches are up; they end with ctx.
func watchWorld(ctx context.Context, client dynamic.Interface, out *screen) (*world, error) {
	w := &world{screen: out}
	w.mu.objects, w.mu.changed = map[id]*unstructured.Unstructured{}, make(chan struct{})
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, demoNamespace, nil)
	var synced []cache.InformerSynced
	for _, resource := range kinds() {
		registration, err := factory.ForResource(resource).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { w.observe(obj, false) },
			UpdateFunc: func(_, obj any) { w.observe(obj, false) },
			DeleteFunc: func(obj any) { w.observe(obj, true) },
		})
		if err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, fmt.Errorf("watch: %w", context.Cause(ctx))
	}
	return w, nil
}

// observe takes in one change of one object.
func (w *world) observe(obj any, gone bool) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	now, ok := obj.(*unstructured.Unstructured)
	if !ok || now.GetName() == "kubernetes" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := id{now.GetKind(), now.GetName()}
	before := w.mu.objects[key]
	if before != nil && before.GetUID() != now.GetUID() { // its deletion was not seen on its own
		w.screen.event(key, "gone")
		before = nil
	}
	switch {
	case gone:
		delete(w.mu.objects, key)
		w.screen.event(key, "gone")
	case before == nil:
		w.mu.objects[key] = now
		w.screen.event(key, fmt.Sprintf("created, uid %s: %s", shortUID(now), phase(now)))
	default:
		w.mu.objects[key] = now
		switch was, is := phase(before), phase(now); {
		case was == is:
		case key.kind == echoKind:
			w.screen.event(key, "status: "+is)
		default:
			w.screen.event(key, was+" → "+is)
		}
	}
	close(w.mu.changed)
	w.mu.changed = make(chan struct{})
}

// until returns when the view meets the condition.
func (w *world) until(ctx context.Context, died func() error, what string, met func(view) bool) error {
	const timeout = time.Minute // a second or two are usual
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(pollInterval) // for died
	defer tick.Stop()
	for {
		v, changed := w.view()
		if met(v) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %v until %s: %w", timeout, what, ctx.Err())
		case <-changed:
		case <-tick.C:
			if err := died(); err != nil {
				return err
			}
		}
	}
}

// view returns what is there now, and a channel that is closed when it changes.
func (w *world) view() (view, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return view{maps.Clone(w.mu.objects)}, w.mu.changed
}

// A view is the world at one moment.
type view struct {
	objects map[id]*unstructured.Unstructured
}

// uid is empty if there is no such object.
func (v view) uid(kind, name string) types.UID {
	if obj := v.objects[id{kind, name}]; obj != nil {
		return obj.GetUID()
	}
	return ""
}

// children returns the objects that have the parent as controller.
func (v view) children(parent string) []*unstructured.Unstructured {
	owner := v.uid(echoKind, parent)
	var children []*unstructured.Unstructured
	for _, obj := range v.objects {
		if controller := metav1.GetControllerOf(obj); controller != nil && controller.UID == owner {
			children = append(children, obj)
		}
	}
	slices.SortFunc(children, compareObjects)
	return children
}

// parents returns the EchoServers.
func (v view) parents() []*unstructured.Unstructured {
	var parents []*unstructured.Unstructured
	for _, obj := range v.objects {
		if obj.GetKind() == echoKind {
			parents = append(parents, obj)
		}
	}
	slices.SortFunc(parents, compareObjects)
	return parents
}

// settled says whether an EchoServer has its two children, its Pod runs, and
// its status says so of the present generation.
func (v view) settled(name string) bool {
	echo, pod := v.objects[id{echoKind, name}], v.objects[id{podKind, name}]
	if echo == nil || pod == nil || phase(pod) != "Running" || len(v.children(name)) != 2 {
		return false
	}
	service, _, _ := unstructured.NestedString(echo.Object, "spec", "serviceName")
	observed, _, _ := unstructured.NestedInt64(echo.Object, "status", "observedGeneration")
	return v.objects[id{serviceKind, service}] != nil &&
		observed == echo.GetGeneration() && message(echo) == fmt.Sprintf("Pod %s is Running", name)
}

// phase says in a few words how an object fares.
func phase(obj *unstructured.Unstructured) string {
	switch obj.GetKind() {
	case podKind:
		if obj.GetDeletionTimestamp() != nil {
			return "Terminating"
		}
		phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
		return phase
	case serviceKind:
		ports, _, _ := unstructured.NestedSlice(obj.Object, "spec", "ports")
		if len(ports) == 0 {
			return "no port"
		}
		first, _ := ports[0].(map[string]any)
		return fmt.Sprintf("port %v", first["port"])
	default:
		if text := message(obj); text != "" {
			return shorten(text)
		}
		return "no status yet"
	}
}

func message(obj *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(obj.Object, "status", "message")
	return text
}

// shorten makes a text fit on a line.
func shorten(text string) string {
	const limit = 80
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}

// shortUID is enough of a UID to tell two apart.
func shortUID(obj *unstructured.Unstructured) string {
	uid := string(obj.GetUID())
	return uid[:min(8, len(uid))]
}

func compareObjects(a, b *unstructured.Unstructured) int {
	return slices.Compare([]string{a.GetKind(), a.GetName()}, []string{b.GetKind(), b.GetName()})
}
