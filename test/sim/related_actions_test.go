package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// relatedActions returns what happens to related objects, and to the references of so many
// parents, in a run of this length.
func relatedActions(rng *rand.Rand, parents int, length time.Duration) (actions []action) {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	parent := func() string { return fmt.Sprint("p", rng.IntN(parents)) }
	source := func() string {
		return pick("Source@ns/", "Source@ns2/") + pick("s0", "s1", "s2", "m0", "m1")
	}
	related := func() string { return pick(source(), source(), "Zone/"+pick("z0", "z1")) }
	put := func() []string {
		return []string{"put", related(), fmt.Sprint("r", rng.IntN(100)), pick("gold", "tin", "none")}
	}
	verbs := []func() []string{
		put, put, put, put,
		func() []string { return []string{"drop", related()} },
		func() []string { return []string{"drop", related()} },
		func() []string { return []string{"redo", related()} },
		func() []string { return append([]string{"refer", parent()}, writeRefs(rng)...) },
		func() []string { return append([]string{"refer", parent()}, writeRefs(rng)...) },
		func() []string { return append([]string{"refer", parent()}, writeRefs(rng)...) },
		func() []string { return []string{"refer", parent(), pick("Source/..", "Parent@elsewhere/p0")} },
		func() []string { return []string{"lag", pick("Source", "Source", "Zone")} },
	}
	add := func(when time.Duration, words []string) {
		actions = append(actions, action{When: at, At: when.Round(time.Millisecond), Verb: words[0], Args: words[1:]})
	}
	for range 6 {
		add(0, put())
	}
	for i := range parents { // some after a while in which they refer to nothing
		add(time.Duration(1+rng.IntN(2)*rng.IntN(3000))*time.Millisecond, append([]string{"refer", fmt.Sprint("p", i)}, writeRefs(rng)...))
	}
	for range 5 + rng.IntN(30) {
		when := time.Duration(rng.Int64N(int64(length)))
		for range 1 + rng.IntN(2)*rng.IntN(3) { // some of them within moments of each other
			add(when, verbs[rng.IntN(len(verbs))]())
			when += time.Duration(rng.IntN(100)) * time.Millisecond
		}
	}
	return actions
}

// writeRefs returns some references.
func writeRefs(rng *rand.Rand) (refs []string) {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	for range rng.IntN(4) {
		refs = append(refs, pick(
			"Source/s0", "Source/s1", "Source/s2", "Source/s0", "Zone/z0", "Zone/z1", "Source@ns2/s0", "Source@ns/s1",
			"Source?tier=gold", "Source?tier=tin", "Source?!tier", "Zone?tier=gold", "Source@*?tier=gold",
			"Source", "Source", "Source@*", "Zone", "Source@ns", "many",
			fmt.Sprintf("ConfigMap/p%d-%d", rng.IntN(4), rng.IntN(2)), "ConfigMap?app=v1", fmt.Sprint("Parent/p", rng.IntN(4)), "Parent",
		))
	}
	return refs
}

// actOnRelated changes a related object, or what a parent refers to.
func (w *world) actOnRelated(verb, arg string, args []string) {
	if verb == "refer" {
		w.change("Parent/"+arg, func(o map[string]any) { setRefs(o, args) })
		return
	}
	r, _ := readRef(arg, "")
	t := map[string]resource.Type{"Source": sourceType(), "Zone": zoneType()}[r.Kind]
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	live := w.server.Get(t, key)
	if verb == "put" {
		w.put(t, key, live, args[0], args[1])
		return
	}
	if live != nil && w.server.Delete(t, key) == nil && verb == "redo" {
		_, _ = w.server.Create(live.Unstructured().Object)
	}
}

// put creates a related object, or gives it another value and label.
func (w *world) put(t resource.Type, key types.NamespacedName, live *resource.Resource, value, tier string) {
	o := map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": key.Name}}
	if key.Namespace != "" {
		nested(o, "metadata")["namespace"] = key.Namespace
	}
	change := func(o map[string]any) {
		nested(o, "spec")["value"] = value
		held := map[string]any{}
		if tier != "none" {
			held["tier"] = tier
		}
		nested(o, "metadata")["labels"] = held
	}
	if live != nil {
		_, _ = w.server.Change(t, key, change)
		return
	}
	change(o)
	_, _ = w.server.Create(o)
}

// mendRefs ends references that are refused.
func (w *world) mendRefs() {
	for _, p := range w.server.List(parentType()) {
		if _, allowed := refsOf(p); !allowed {
			w.change("Parent/"+p.Name(), func(o map[string]any) { setRefs(o, nil) })
		}
	}
}
