package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/internal/testing/past"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func sourceType() resource.Type {
	return resource.Type{APIVersion: "sim.example.com/v1", Kind: "Source"}
}

// zoneType is cluster-scoped.
func zoneType() resource.Type {
	return resource.Type{APIVersion: "sim.example.com/v1", Kind: "Zone"}
}

// relatedTypes returns the types that parents may refer to. ConfigMaps are children of
// parents, too.
func relatedTypes() []resource.Type {
	return []resource.Type{sourceType(), zoneType(), k8s.ConfigMap, parentType()}
}

func relatedConfig() []config.Related {
	var out []config.Related
	for _, t := range relatedTypes() {
		out = append(out, config.Related{Type: t, Fields: []string{"spec.names." + t.Kind}, AnyNamespace: t == sourceType()})
	}
	return out
}

// names is how many names "many" stands for, of which few are those of objects. More than
// mostWatches names of one type in one namespace are watched together.
const names, mostWatches = 70, 64

// badName is a reference that the operator must reject.
const badName = "Source/.."

// readRef reads a reference of a parent in a namespace, as a script writes it: see
// past.ParseRef. Without a namespace it is to the parent's own, and @* is all of them. readRef
// returns false for a reference that the operator must refuse: by a name that can't be one, or
// to a namespace that it doesn't allow.
func readRef(text, own string) (r past.Ref, allowed bool) {
	r = past.ParseRef(text)
	allowed = r.Name != ".." && (r.Namespace == "" || r.Namespace == own || r.Kind == zoneType().Kind || r.Kind == sourceType().Kind)
	switch {
	case r.Kind == zoneType().Kind, r.Namespace == handler.AllNamespaces:
		r.Namespace = ""
	case r.Namespace == "":
		r.Namespace = own
	}
	return r, allowed
}

// written returns the references of a parent as scripts write them.
func written(parent *resource.Resource) (texts []string) {
	list, _ := parent.Field("spec", "refs")
	items, _ := list.([]any)
	for _, item := range items {
		if item == "many" {
			for i := range names {
				texts = append(texts, fmt.Sprintf("Source/m%d", i))
			}
			continue
		}
		text, _ := item.(string)
		texts = append(texts, text)
	}
	return texts
}

// refsOf returns what a parent refers to, and whether all of it is allowed.
func refsOf(parent *resource.Resource) (refs []past.Ref, allowed bool) {
	allowed = true
	for _, text := range written(parent) {
		r, ok := readRef(text, parent.Namespace())
		refs, allowed = append(refs, r), allowed && ok
	}
	return refs, allowed
}

// setRefs is the change of a parent that makes it refer to something else. A name in the
// parent's namespace is in the field that the configuration names. All else is said by Relate.
func setRefs(o map[string]any, texts []string) {
	refs, byKind := []any{}, map[string]any{}
	for _, text := range texts {
		refs = append(refs, text)
	}
	nested(o, "spec")["refs"] = refs
	parent, err := resource.New(o)
	if err != nil {
		return // can't be: it is an object of the server
	}
	for _, text := range written(parent) {
		if r := past.ParseRef(text); r.Name != "" && r.Namespace == "" {
			list, _ := byKind[r.Kind].([]any)
			byKind[r.Kind] = append(list, r.Name)
		}
	}
	nested(o, "spec")["names"] = byKind
}

// Relate is handler.Relater's. It says what isn't in the fields that the configuration names.
func (o relating) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	refs, _ := refsOf(parent)
	o.witness.Refers(parent.UID(), refs)
	f := o.dice.next("relate "+parent.Name(), o.dice.rates.handler/2, relateOutcomes()...)
	if err := o.Sleep(context.Background(), f.Delay/10); err != nil {
		return nil, err
	}
	outcome := f.Outcome
	switch {
	case outcome == faults.KillAfter:
		outcome = faults.KillBefore
	case behavior(parent, "sync") == "relate":
		outcome = "error"
	}
	if outcome != "" && outcome != faults.Late {
		o.enter(context.Background(), parent.Name(), &pass{none: true, failed: map[string]struct{}{}})
	}
	if done, err := o.end(outcome); done {
		return nil, err
	}
	var out []handler.Ref
	for _, text := range written(parent) {
		if r := past.ParseRef(text); r.Name == "" || r.Namespace != "" {
			at := slices.IndexFunc(relatedTypes(), func(t resource.Type) bool { return t.Kind == r.Kind })
			out = append(out, handler.Ref{Type: relatedTypes()[at], Namespace: r.Namespace, Name: r.Name, Selector: r.Selector})
		}
	}
	return out, nil
}

// A relating is an operator whose parents refer to objects.
type relating struct{ *operator }

func (w *world) handler(p *process) handler.Handler {
	o := &operator{p}
	bare, relates := w.script.is(bareHandler), w.script.is(withRelated)
	switch {
	case bare && relates:
		return handler.Funcs{SyncFunc: o.Sync, RelateFunc: relating{o}.Relate}
	case bare:
		return handler.SyncFunc(o.Sync)
	case relates:
		return relating{o}
	}
	return o
}

// digest says what is in some objects. It doesn't depend on what they refer to themselves,
// so that circles come to rest.
func digest(objects []*resource.Resource) string {
	var texts []string
	for _, r := range objects {
		texts = append(texts, past.KeyOf(r).String()+"="+valueOf(r))
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// valueOf returns the value of an object, and which parent gave it, if it says so.
func valueOf(r *resource.Resource) string {
	held, _ := r.Field(contentsField(r.Type()))
	contents, _ := held.(map[string]any)
	text, _ := contents["value"].(string)
	if of, _ := contents["of"].(string); of != "" {
		text += "@" + of
	}
	return text
}

func valueIn(o map[string]any) string {
	data, _ := o["data"].(map[string]any)
	text, _ := data["value"].(string)
	return text
}

// relatedTo returns the objects that a parent refers to, as they are now.
func (w *world) relatedTo(parent *resource.Resource) (found []*resource.Resource) {
	refs, _ := refsOf(parent)
	for _, t := range relatedTypes() {
		for _, r := range w.server.List(t) {
			if slices.ContainsFunc(refs, func(to past.Ref) bool { return to.Selects(r) }) {
				found = append(found, r)
			}
		}
	}
	return found
}

// referredTo returns everything that the operators' parents refer to.
func (w *world) referredTo() map[past.Ref]struct{} {
	all := map[past.Ref]struct{}{}
	for _, p := range w.server.List(parentType()) {
		if w.isAside(p.Labels()) || w.script.is(inNamespaces) && p.Namespace() == "ns3" {
			continue
		}
		refs, _ := refsOf(p)
		for _, r := range refs {
			all[r] = struct{}{}
		}
	}
	return all
}

func refersTo(refs map[past.Ref]struct{}, r *resource.Resource) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(refs)), func(to past.Ref) bool { return to.Selects(r) })
}
