package histories

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/past"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// relatedTypes returns the types that parents may refer to. ConfigMaps are children of
// parents, too.
func relatedTypes() []resource.Type {
	return []resource.Type{k8s.Secret, k8s.ConfigMap, parentType()}
}

func relatedConfig() []config.Related {
	var out []config.Related
	for _, t := range relatedTypes() {
		out = append(out, config.Related{Type: t, Fields: []string{"spec.names." + t.Kind}})
	}
	return out
}

func newRecord() *past.Record {
	return past.NewRecord(k8s.Secret.Kind, k8s.ConfigMap.Kind, parentType().Kind)
}

// badName is a name that can't be one.
const badName = "Secret/.."

// manyNames stands for more names of Secrets than are watched one by one. There is one of them
// at most.
const manyNames = "many"

// parseRefs reads references as a script writes them: see past.ParseRef.
func parseRefs(text string) (refs []past.Ref) {
	for one := range strings.SplitSeq(text, ",") {
		switch one {
		case "", "none":
		case manyNames:
			for i := range 70 {
				refs = append(refs, past.Ref{Kind: k8s.Secret.Kind, Name: "m" + strconv.Itoa(i)})
			}
		default:
			refs = append(refs, past.ParseRef(one))
		}
	}
	return refs
}

// refsOf returns what a parent refers to.
func refsOf(parent *resource.Resource) []past.Ref {
	refs := parseRefs(textOf(parent, "spec", "refs"))
	for i := range refs {
		refs[i].Namespace = parent.Namespace()
	}
	return refs
}

// refer is the change of a parent by which it refers to this. Names are in the fields that
// the configuration names, all else is said by Relate.
func refer(o map[string]any, refs string) {
	names := map[string]any{}
	for _, r := range parseRefs(refs) {
		if r.Name != "" {
			list, _ := names[r.Kind].([]any)
			names[r.Kind] = append(list, r.Name)
		}
	}
	inside(o, "spec")["refs"], inside(o, "spec")["names"] = refs, names
}

// Relate is handler.Relater's.
func (o relating) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	if textOf(parent, "spec", "fail") == "relate" {
		return nil, errors.New("as it was told to")
	}
	refs := refsOf(parent)
	o.witness.Refers(parent.UID(), refs)
	var out []handler.Ref
	for _, r := range refs {
		if r.Name == "" {
			at := slices.IndexFunc(relatedTypes(), func(t resource.Type) bool { return t.Kind == r.Kind })
			out = append(out, handler.Ref{Type: relatedTypes()[at], Selector: r.Selector})
		}
	}
	return out, nil
}

// A relating is an operator whose parents refer to objects.
type relating struct{ *operator }

// handler returns the handler of a process.
func (w *world) handler() handler.Handler {
	o := &operator{world: w, witness: w.record.Witness()}
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

// judge holds the related objects that the handler is shown against their history.
func (o *operator) judge(req *handler.SyncRequest) {
	if !o.world.script.is(withRelated) {
		return
	}
	for _, wrong := range o.witness.Shown(req.Parent.UID(), refsOf(req.Parent), slices.Collect(req.Related.All())) {
		o.world.Violated("%s: %s", req.Parent, wrong)
	}
}

// digest says what is in some objects. It doesn't depend on what they refer to themselves, so
// that circles come to rest.
func digest(objects []*resource.Resource) string {
	var texts []string
	for _, r := range objects {
		field := contentsField(r.Type().Kind)
		texts = append(texts, r.Type().Kind+"/"+r.Name()+"="+textOf(r, field, "value")+textOf(r, field, "of"))
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// relatedTo returns the digest of what a parent refers to, as it is now.
func (w *world) relatedTo(parent *resource.Resource) string {
	refs := refsOf(parent)
	var found []*resource.Resource
	for _, t := range relatedTypes() {
		for _, r := range w.server.List(t) {
			if slices.ContainsFunc(refs, func(to past.Ref) bool { return to.Selects(r) }) {
				found = append(found, r)
			}
		}
	}
	return digest(found)
}

// noteRestore notes that related objects have gone back to what they were.
func (w *world) noteRestore() {
	var now []*resource.Resource
	for _, t := range relatedTypes() {
		now = append(now, w.server.List(t)...)
	}
	w.record.Restored(now)
}

// takeOnRelated carries out a step about a Secret, which nobody but parents refers to.
func (w *world) takeOnRelated(verb, name, value, tier string) {
	live := w.server.Get(k8s.Secret, key(name))
	switch {
	case verb == "keep" && live == nil:
		o := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": "ns"}}
		fill(o, value, tier)
		_, _ = w.server.Create(o)
	case verb == "keep":
		w.change("Secret/"+name, func(o map[string]any) { fill(o, value, tier) })
	case live != nil && w.server.Delete(k8s.Secret, key(name)) == nil && verb == "renew":
		_, _ = w.server.Create(live.Unstructured().Object)
	}
}

// fill gives a Secret a value and a label.
func fill(o map[string]any, value, tier string) {
	inside(o, "data")["value"] = value
	inside(o, "metadata")["labels"] = map[string]any{"tier": tier}
}

// relatedSteps are the kinds of steps about related objects.
func (p *pen) relatedSteps() []drawn {
	secret := func() []string { return []string{p.secret()} }
	return []drawn{
		{20, "refer", func() []string { return []string{p.parent(), p.refs()} }},
		{2, "refer", func() []string { return []string{p.parent(), badName} }},
		{2, "fail", func() []string { return []string{p.parent(), "relate"} }},
		{16, "keep", func() []string { return []string{p.secret(), p.value(), p.tier()} }},
		{8, "lose", secret},
		{4, "renew", secret},
		{6, "late", func() []string { return []string{"Secret"} }},
		{3, "twice", func() []string { return []string{"Secret", p.count(6)} }},
	}
}

func (p *pen) secret() string { return p.pick("x", "y", "z", "m0") }

func (p *pen) tier() string { return p.pick("gold", "tin") }

// refs returns up to three references.
func (p *pen) refs() string {
	var refs []string
	for range p.rng.IntN(4) {
		refs = append(refs, p.pick(
			"Secret/x", "Secret/y", "Secret/z", "Secret/x", "Secret?tier=gold", "Secret?tier!=gold", "Secret", manyNames,
			"ConfigMap/a", "ConfigMap?"+tracking, "Parent/"+p.parent(), "Parent",
		))
	}
	if len(refs) == 0 {
		return "none"
	}
	return strings.Join(refs, ",")
}

// followRelated returns a step that is likely to meet what a step about related objects has
// laid out.
func (p *pen) followRelated(s step) step {
	name := p.secret()
	if s.verb != "late" && s.verb != "refer" {
		name = s.args[0]
	}
	return []step{
		{p.wait(), "keep", []string{name, p.value(), p.tier()}}, {p.wait(), "lose", []string{name}},
		{p.wait(), "refer", []string{p.parent(), "Secret/" + name}}, {p.wait(), "refer", []string{p.parent(), p.refs()}},
	}[p.rng.IntN(4)]
}
