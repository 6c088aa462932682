package storm

import (
	"errors"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roperator/roperator/internal/encode"
)

// take takes a step.
func (w *world) take(s step) {
	w.say(event{text: s.String(), weight: 3})
	object, err := encode.Map(s.object) // a copy: a run may change it
	if err == nil {
		err = w.carryOut(s, object)
	}
	if err != nil {
		w.note("which fails: %v", err)
	}
	if _, panicked := errors.AsType[panicError](err); panicked {
		w.violated("scenario", "", "%s: %v", s, err)
	}
	w.changed()
	w.look("always", w.scenario.always)
}

func (w *world) carryOut(s step, object map[string]any) (err error) {
	defer recoverInto(&err)
	key := s.key
	if (key.Namespace == "" || key.Namespace == "default") && !w.clusterScoped(s.t) {
		key.Namespace = w.namespace
	}
	if s.verb == "create" {
		meta, _ := object["metadata"].(map[string]any)
		if key.Namespace != "" {
			meta["namespace"] = key.Namespace
		}
		w.await(func() bool { live := w.server.Get(s.t, key); return live == nil || !live.IsDeleting() })
		return w.create(object)
	}
	w.await(func() bool { return w.server.Get(s.t, key) != nil })
	switch {
	case s.verb == "delete":
		err = w.server.Delete(s.t, key)
	case s.change != nil:
		_, err = w.server.Change(s.t, key, s.change)
	default:
		_, err = w.server.Change(s.t, key, func(o map[string]any) { overlay(o, object) })
	}
	return err
}

// await waits until something is so, for a while.
func (w *world) await(is func() bool) {
	for end := time.Now().Add(w.pace.awaited); !is() && time.Now().Before(end); {
		<-time.After(100 * time.Millisecond)
	}
}

// create creates an object, and gives it the status that it has. Its UID is another one than it may have
// had where it was recorded, so those whose owner it is get to know it.
func (w *world) create(object map[string]any) error {
	status := object["status"]
	of := &unstructured.Unstructured{Object: object}
	was, owners := of.GetUID(), of.GetOwnerReferences()
	w.mu.Lock()
	for i, owner := range owners {
		if uid, ok := w.mu.uids[owner.UID]; ok {
			owners[i].UID = uid
		}
	}
	w.mu.Unlock()
	if len(owners) > 0 {
		of.SetOwnerReferences(owners)
	}
	r, err := w.server.Create(object)
	if err == nil && was != "" {
		w.mu.Lock()
		w.mu.uids[was] = r.UID()
		w.mu.Unlock()
	}
	if err == nil && status != nil {
		_, err = w.server.Change(r.Type(), r.Key(), func(o map[string]any) { o["status"] = status })
	}
	return err
}

// overlay sets what an update has.
func overlay(o, update map[string]any) {
	for name, value := range update {
		switch name {
		case "apiVersion", "kind":
		case "metadata":
			meta, _ := o["metadata"].(map[string]any)
			news, _ := value.(map[string]any)
			for _, field := range []string{"labels", "annotations"} {
				set, _ := news[field].(map[string]any)
				held, _ := meta[field].(map[string]any)
				if held == nil {
					held = map[string]any{}
				}
				if maps.Copy(held, set); len(held) > 0 {
					meta[field] = held
				}
			}
		default:
			o[name] = value
		}
	}
}
