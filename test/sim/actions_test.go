package sim

import (
	"fmt"
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
		s.Strategies = append(s.Strategies, pick("Replace", "Recreate"))
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
		func() []string { return []string{"clear-status", parent()} },
		func() []string { return []string{"tamper", child()} },
		func() []string { return []string{"label", child(), value()} },
		func() []string { return []string{"strip", child()} },
		func() []string { return []string{"orphan", child()} },
		func() []string { return []string{"unmark", child()} },
		func() []string { return []string{"delete", child()} },
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
		func() []string { return []string{"lag", pick("Parent", "ConfigMap", "Secret", "Part")} },
		func() []string { return []string{"catch-up"} },
	}
	length := time.Duration(10+rng.IntN(110)) * time.Second
	for range 5 + rng.IntN(40) {
		words := verbs[rng.IntN(len(verbs))]()
		at := time.Duration(rng.Int64N(int64(length))).Round(time.Millisecond)
		s.Actions = append(s.Actions, action{At: at, Verb: words[0], Args: words[1:]})
	}
	for i := range parents { // each exists at first, from before the operator started or not
		at := time.Duration(rng.IntN(2)) * time.Second
		s.Actions = append(s.Actions, action{At: at, Verb: "create", Args: []string{fmt.Sprint("p", i), value(), pick("1", "2", "3")}})
	}
	slices.SortStableFunc(s.Actions, func(a, b action) int { return int(a.At - b.At) })
	return s
}

func inNamespace(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// object reads Kind/name.
func object(arg string) (resource.Type, types.NamespacedName) {
	kind, name, _ := strings.Cut(arg, "/")
	return map[string]resource.Type{"Parent": parentType(), "Part": partType(), "ConfigMap": k8s.ConfigMap, "Secret": k8s.Secret}[kind], inNamespace(name)
}

// act does what a script says. What isn't there can't be changed, which is
// fine.
func (w *world) act(a action) {
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
	case "kill":
		if p := w.process(args[0]); p != nil {
			p.kill()
		}
	case "stop":
		if p := w.process(args[0]); p != nil {
			p.cancel()
		}
	case "set":
		w.change("Parent/"+args[0], func(o map[string]any) { o["spec"] = spec(args[1], args[2]) })
	case "clear-status":
		w.change("Parent/"+args[0], func(o map[string]any) { delete(o, "status") })
	default:
		w.actOn(a.Verb, args[0], args[1])
	}
}

func spec(value, count string) map[string]any {
	n, _ := strconv.Atoi(count)
	return map[string]any{"value": value, "count": int64(n)}
}

func (w *world) makeParent(name, value, count string) {
	_, _ = w.server.Create(map[string]any{
		"apiVersion": parentType().APIVersion, "kind": parentType().Kind,
		"metadata": map[string]any{"name": name, "namespace": "ns"}, "spec": spec(value, count),
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
	case "label":
		w.change(arg, func(o map[string]any) { nested(meta(o), "labels")["example.com/by"] = value })
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
			w.mu.unmarked[r.UID()] = struct{}{}
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
				"metadata": map[string]any{"name": "copy-of-" + key.Name, "namespace": key.Namespace, "labels": labels},
			})
		}
	}
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
	w.mu.Unlock()
	w.server.Release()
	w.checkForeign()
	for _, r := range w.live() {
		arg := r.Type().Kind + "/" + r.Name()
		w.actOn("let-go", arg, "")
		if metaController(r) == "" && r.Type() != parentType() && !strings.HasPrefix(r.Name(), "copy-of-") {
			_ = w.server.Delete(r.Type(), r.Key())
		}
	}
}
