package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// writeScript returns what others do in the run of a seed.
func writeScript(seed uint64) *script {
	rng := rand.New(rand.NewPCG(seed, 2))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	s := &script{Replicas: 1}
	if rng.IntN(4) == 0 {
		s.Replicas = 2
	}
	for range 3 {
		s.Strategies = append(s.Strategies, pick("Replace", "Recreate", "OnDelete"))
	}
	for _, option := range []string{inNamespaces, withSelector, byLists, inPages} {
		if rng.IntN(3) == 0 {
			s.Options = append(s.Options, option)
		}
	}
	parents := 1 + rng.IntN(4)
	parent := func() string { return fmt.Sprint("p", rng.IntN(parents)) }
	child := func() string {
		return pick("ConfigMap/"+parent()+"-"+pick("0", "1", "2"), "Secret/"+parent(), "Part/"+parent())
	}
	value := func() string { return fmt.Sprint("v", rng.IntN(6)) }
	verbs := []func() []string{
		func() []string { return []string{"create", parent(), value(), pick("0", "1", "2", "3")} },
		func() []string { return []string{"create", parent(), value(), pick("1", "2", "3")} },
		func() []string { return []string{"set", parent(), value(), pick("0", "1", "2", "3")} },
		func() []string { return []string{"set", parent(), value(), pick("1", "2", "3")} },
		func() []string { return []string{"delete", "Parent/" + parent()} },
		func() []string { return []string{"label", "Parent/" + parent(), value()} },
		func() []string { return []string{"hold", "Parent/" + parent()} },
		func() []string { return []string{"let-go", "Parent/" + parent()} },
		func() []string { return []string{"put-aside", "Parent/" + parent(), pick("true", "true", "false")} },
		func() []string { return []string{"clear-status", parent()} },
		func() []string { return []string{"tamper", child()} },
		func() []string { return []string{"label", child(), value()} },
		func() []string { return []string{"strip", child()} },
		func() []string { return []string{"orphan", child()} },
		func() []string { return []string{"unmark", child()} },
		func() []string { return []string{"delete", child()} },
		func() []string { return []string{"replace", child()} },
		func() []string { return []string{"revert", child()} },
		func() []string { return []string{"hold", child()} },
		func() []string { return []string{"let-go", child()} },
		func() []string { return []string{"occupy", child()} },
		func() []string { return []string{"copy", child()} },
		func() []string { return []string{"compact"} },
		func() []string { return []string{"break-watches"} },
		func() []string { return []string{"bookmark"} },
		func() []string { return []string{"outage", fmt.Sprint(1+rng.IntN(40), "s")} },
		func() []string { return []string{"kill", fmt.Sprint("replica-", rng.IntN(s.Replicas))} },
		func() []string { return []string{"stop", fmt.Sprint("replica-", rng.IntN(s.Replicas))} },
		func() []string {
			return []string{"cut-lease", fmt.Sprint("replica-", rng.IntN(s.Replicas)), fmt.Sprint(12+rng.IntN(30), "s")}
		},
		func() []string { return []string{"delete", "Parent/" + parent()} },
		func() []string { return []string{"delete-in-foreground", "Parent/" + parent()} },
		func() []string { return []string{"lag", pick("Parent", "ConfigMap", "Secret", "Part")} },
		func() []string { return []string{"catch-up"} },
	}
	length := time.Duration(10+rng.IntN(110)) * time.Second
	for range 5 + rng.IntN(40) {
		words := verbs[rng.IntN(len(verbs))]()
		at := time.Duration(rng.Int64N(int64(length))).Round(time.Millisecond)
		s.Actions = append(s.Actions, action{At: at, Verb: words[0], Args: words[1:]})
		if undo := map[string]string{"hold": "let-go", "tamper": "revert"}[words[0]]; undo != "" && rng.IntN(2) == 0 {
			s.Actions = append(s.Actions, action{At: at + time.Duration(1+rng.IntN(20))*time.Second, Verb: undo, Args: words[1:]})
		}
	}
	for i := range parents { // each exists at first, from before the operator started or not
		at := time.Duration(rng.IntN(2)) * time.Second
		s.Actions = append(s.Actions, action{At: at, Verb: "create", Args: []string{fmt.Sprint("p", i), value(), pick("1", "2", "3")}})
	}
	if rng := rand.New(rand.NewPCG(seed, 3)); rng.IntN(4) > 0 {
		s.Options = append(s.Options, withRelated)
		s.Actions = append(s.Actions, relatedActions(rng, parents, length)...)
	}
	rng = rand.New(rand.NewPCG(seed, 4))
	if rng.IntN(2) == 0 {
		s.Options = append(s.Options, withReadiness)
		s.Actions = append(s.Actions, readinessActions(rng, parents, length)...)
	}
	for _, option := range []string{twoAtOnce, withTeardown, inChain} {
		if rng.IntN(3) == 0 {
			s.Options = append(s.Options, option)
		}
	}
	if rng := rand.New(rand.NewPCG(seed, 5)); rng.IntN(4) == 0 {
		s.share(rng, length)
	}
	if s.is(inNamespaces) { // one that isn't theirs
		s.Actions = append(s.Actions, action{Verb: "create", Args: []string{"p4", value(), "2"}})
	}
	slices.SortStableFunc(s.Actions, func(a, b action) int { return int(a.At - b.At) })
	return s
}

// share lets the replicas share the parents, and come and go more often.
func (s *script) share(rng *rand.Rand, length time.Duration) {
	s.Replicas = 2 + rng.IntN(2)
	s.Options = append(s.Options, withShards)
	if rng.IntN(2) == 0 {
		s.Options = append(s.Options, dividing)
		s.Actions = append(s.Actions, action{At: time.Duration(5+rng.IntN(20)) * time.Second, Verb: []string{"kill", "stop"}[rng.IntN(2)], Args: []string{"replica-0"}})
	}
	for range 1 + rng.IntN(5) {
		a := action{At: time.Duration(rng.Int64N(int64(length))).Round(time.Millisecond), Args: []string{fmt.Sprint("replica-", rng.IntN(s.Replicas))}}
		if a.Verb = []string{"kill", "stop", "cut-lease"}[rng.IntN(3)]; a.Verb == "cut-lease" {
			a.Args = append(a.Args, fmt.Sprint(12+rng.IntN(30), "s"))
		}
		s.Actions = append(s.Actions, a)
	}
}

// inNamespace returns the key of an object, whose namespace follows from the
// name of its parent. Operators that are set to some namespaces don't see ns3.
func inNamespace(name string) types.NamespacedName {
	namespace := "ns"
	if of, ok := strings.CutPrefix(strings.TrimPrefix(name, copied), "p"); ok && len(of) > 0 {
		namespace = map[byte]string{'1': "ns2", '3': "ns2", '4': "ns3"}[of[0]]
		if namespace == "" {
			namespace = "ns"
		}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

const copied = "copy-of-"

// aside is a label that takes a parent away from operators with a selector.
const aside = "sim.example.com/aside"

func (w *world) isAside(labels map[string]string) bool {
	return w.script.is(withSelector) && labels[aside] == "true"
}

// object reads Kind/name.
func object(arg string) (resource.Type, types.NamespacedName) {
	kind, name, _ := strings.Cut(arg, "/")
	return map[string]resource.Type{"Parent": parentType(), "Part": partType(), "Source": sourceType(), "Zone": zoneType(), "ConfigMap": k8s.ConfigMap, "Secret": k8s.Secret}[kind], inNamespace(name)
}

// act does what a script says. What isn't there can't be changed, which is
// fine.
func (w *world) act(a action) {
	w.acting.Store(true)
	defer w.acting.Store(false)
	kind := a.Verb
	if t, _ := object(append(slices.Clone(a.Args), "")[0]); t == parentType() && strings.Contains(a.Args[0], "/") {
		kind += " Parent"
	} else if t.Kind != "" && t != zoneType() && strings.Contains(a.Args[0], "/") {
		kind += " child"
	}
	before := w.server.Version()
	defer func() {
		if !w.changes(a.Verb) || w.server.Version() != before {
			w.count(kind)
		}
	}()
	switch args := append(slices.Clone(a.Args), "", "", ""); a.Verb {
	case "create":
		w.makeParent(args[0], args[1], args[2])
	case "compact":
		w.server.Compact()
	case "break-watches":
		w.server.BreakWatches()
	case "bookmark":
		w.server.Bookmark()
	case "lag":
		t, _ := object(args[0] + "/")
		w.server.Hold(t)
	case "catch-up":
		w.server.Release()
	case "outage":
		d, _ := time.ParseDuration(args[0])
		w.mu.Lock()
		w.mu.down = time.Now().Add(d)
		w.mu.Unlock()
		w.server.BreakWatches()
	case "cut-lease":
		d, _ := time.ParseDuration(args[1])
		w.process(args[0]).Cut(d)
	case "kill":
		w.process(args[0]).Kill()
	case "stop":
		w.process(args[0]).Stop()
	case "set":
		w.change("Parent/"+args[0], func(o map[string]any) { maps.Copy(nested(o, "spec"), spec(args[1], args[2])) })
	case "fail", "recover", "break", "unbreak", "freeze", "thaw":
		w.actOnReadiness(a.Verb, args)
	case "refer", "put", "drop", "redo":
		w.actOnRelated(a.Verb, a.Args[0], a.Args[1:])
	case "clear-status":
		w.change("Parent/"+args[0], func(o map[string]any) { delete(o, "status") })
	default:
		w.actOn(a.Verb, args[0], args[1])
	}
}

// changes says whether an action is one that has an effect only if it changes
// an object.
func (w *world) changes(verb string) bool {
	return !slices.Contains([]string{"break-watches", "bookmark", "outage", "cut-lease", "kill", "stop", "lag", "catch-up",
		"fail", "recover", "break", "unbreak", "freeze", "thaw"}, verb)
}

func spec(value, count string) map[string]any {
	n, _ := strconv.Atoi(count)
	return map[string]any{"value": value, "count": int64(n)}
}

func (w *world) makeParent(name, value, count string) {
	_, _ = w.server.Create(map[string]any{
		"apiVersion": parentType().APIVersion, "kind": parentType().Kind,
		"metadata": map[string]any{"name": name, "namespace": inNamespace(name).Namespace}, "spec": spec(value, count),
	})
}

func (w *world) change(arg string, change func(o map[string]any)) *resource.Resource {
	t, key := object(arg)
	r, _ := w.server.Change(t, key, change)
	return r
}

const foreignFinalizer = "example.com/holds"

// actOn does what is done to parents and children alike.
func (w *world) actOn(verb, arg, value string) {
	t, key := object(arg)
	meta := func(o map[string]any) map[string]any {
		m, _ := o["metadata"].(map[string]any)
		return m
	}
	live := w.server.Get(t, key)
	if live != nil && w.isForeign(live.UID()) && verb != "delete" {
		return
	}
	switch verb {
	case "delete":
		_ = w.server.Delete(t, key)
	case "delete-in-foreground":
		_ = w.server.DeleteInForeground(t, key)
	case "label":
		w.change(arg, func(o map[string]any) { nested(meta(o), "labels")["example.com/by"] = value })
	case "put-aside":
		w.change(arg, func(o map[string]any) { nested(meta(o), "labels")[aside] = value })
	case "replace": // as kubectl replace --force does
		if live != nil && len(live.Finalizers()) == 0 && w.server.Delete(t, key) == nil {
			w.again(live)
		}
	case "revert":
		w.revert(arg)
	case "hold":
		w.change(arg, func(o map[string]any) {
			held, _ := meta(o)["finalizers"].([]any)
			if meta(o)["deletionTimestamp"] == nil && !slices.Contains(held, any(foreignFinalizer)) {
				meta(o)["finalizers"] = append([]any{foreignFinalizer}, held...)
			}
		})
	case "let-go":
		if live != nil {
			w.mu.Lock()
			w.mu.letGo[live.UID()] = struct{}{}
			w.mu.Unlock()
		}
		w.change(arg, func(o map[string]any) {
			held, _ := meta(o)["finalizers"].([]any)
			meta(o)["finalizers"] = slices.DeleteFunc(held, func(f any) bool { return f == foreignFinalizer })
		})
	case "tamper":
		w.change(arg, func(o map[string]any) {
			nested(o, map[string]string{"Part": "spec"}[t.Kind], "data")["value"] = "dGFtcGVyZWQ="
		})
	case "strip":
		w.change(arg, func(o map[string]any) { delete(nested(meta(o), "labels"), tracking) })
	case "orphan":
		w.change(arg, func(o map[string]any) { delete(meta(o), "ownerReferences") })
	case "unmark": // then nobody knows any more what an earlier desired state had set
		if r := w.change(arg, func(o map[string]any) { delete(meta(o), "annotations") }); r != nil {
			w.mu.Lock()
			w.mu.theirs[r.UID()] = struct{}{}
			w.mu.Unlock()
		}
	case "occupy":
		w.own(map[string]any{
			"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": key.Name, "namespace": key.Namespace},
		})
	case "copy": // as people copy manifests
		if live != nil {
			labels := map[string]any{}
			for k, v := range live.Labels() {
				labels[k] = v
			}
			w.own(map[string]any{
				"apiVersion": t.APIVersion, "kind": t.Kind,
				"metadata": map[string]any{"name": copied + key.Name, "namespace": key.Namespace, "labels": labels},
			})
		}
	}
}

// again creates what was deleted as it was, with what others had set.
func (w *world) again(live *resource.Resource) {
	created, err := w.server.Create(live.Unstructured().Object)
	if err != nil {
		return // the operator was faster
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, theirs := w.mu.theirs[live.UID()]; theirs {
		w.mu.theirs[created.UID()] = struct{}{}
	}
}

// revert gives an object the fields that it was created with.
func (w *world) revert(arg string) {
	w.change(arg, func(o map[string]any) {
		uid := briefOf(o).Metadata.UID
		w.mu.Lock()
		first := w.mu.first[uid]
		w.mu.theirs[uid] = struct{}{} // what the desired state has dropped since
		w.mu.Unlock()
		for _, field := range []string{"data", "spec"} {
			if first[field] != nil {
				o[field] = first[field]
			}
		}
	})
}

// nested returns the map in the first of these fields that has a name.
func nested(o map[string]any, fields ...string) map[string]any {
	for _, field := range fields {
		if field == "" {
			continue
		}
		m, ok := o[field].(map[string]any)
		if !ok {
			m = map[string]any{}
			o[field] = m
		}
		return m
	}
	return map[string]any{}
}

// own creates an object that is nobody's but its creator's.
func (w *world) own(o map[string]any) {
	r, err := w.server.Create(o)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.foreign[r.UID()] = r.ResourceVersion()
}

func (w *world) isForeign(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.mu.foreign[uid]
	return ok
}

// mend ends what others do: watches go on, the API server is back, nobody
// holds an object that is being deleted, or a name that a parent needs.
func (w *world) mend() {
	w.mu.Lock()
	w.mu.down = time.Time{}
	for _, p := range w.mu.processes {
		p.Cut(0)
	}
	w.mu.Unlock()
	w.server.Release()
	w.mendRefs()
	w.mendReadiness()
	w.checkForeign()
	for _, r := range w.live() {
		arg := r.Type().Kind + "/" + r.Name()
		w.actOn("let-go", arg, "")
		if metaController(r) == "" && r.Type() != parentType() && !strings.HasPrefix(r.Name(), copied) {
			_ = w.server.Delete(r.Type(), r.Key())
		}
	}
}
