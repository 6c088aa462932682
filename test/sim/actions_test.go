package sim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

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
	case "want":
		w.want(args[0], args[1], a.Args[2:])
	case "behave":
		w.change("Parent/"+args[0], func(o map[string]any) { behave(o, a.Args[1:]) })
	case "compact":
		w.server.Compact()
	case "relist":
		w.server.Compact()
		w.server.BreakWatches()
	case "collect":
		w.server.CollectGarbage()
	case "meet":
		w.plans.meet(a.Args)
	case "repeat":
		n, _ := strconv.Atoi(args[1])
		w.plans.repeat(strings.ToLower(args[0])+"s", n)
	case "backup":
		w.restore = w.server.Backup()
	case "restore":
		w.restoreBackup(args[0] == "old")
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
		w.goDown(d)
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
	return !slices.Contains([]string{"meet", "repeat", "backup", "restore", "relist", "collect", "break-watches", "bookmark", "outage", "cut-lease", "kill", "stop", "lag", "catch-up",
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

// want creates a parent that names children, or changes it.
func (w *world) want(name, value string, children []string) {
	change := func(o map[string]any) {
		list := []any{}
		for _, child := range children {
			list = append(list, child)
		}
		nested(o, "spec")["value"], nested(o, "spec")["children"] = value, list
	}
	if w.change("Parent/"+name, change) != nil {
		return
	}
	o := map[string]any{
		"apiVersion": parentType().APIVersion, "kind": parentType().Kind,
		"metadata": map[string]any{"name": name, "namespace": inNamespace(name).Namespace},
	}
	change(o)
	_, _ = w.server.Create(o)
}

// behave sets how the handler behaves for a parent: see behavior.
func behave(o map[string]any, how []string) {
	for _, one := range how {
		in, as, _ := strings.Cut(one, "=")
		nested(nested(o, "spec"), "behavior")[in] = as
	}
}

// goDown makes the API server unreachable for a while.
func (w *world) goDown(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.down = time.Now().Add(d)
}

// restoreBackup restores the backup, if there is one. Connections don't outlive that, and the API server is
// down for a while. An old backup is one since which much has happened in the cluster, as is usual.
func (w *world) restoreBackup(old bool) {
	if w.restore == nil {
		return
	}
	if old {
		w.server.Skip(1000)
		w.server.Bookmark()
		synctest.Wait()
	}
	w.restores.Add(1)
	w.goDown(2 * time.Second)
	before := w.server.Version()
	w.restore()
	if w.server.Version() < before {
		w.lost.Add(1)
	}
	var now []*resource.Resource
	for _, t := range relatedTypes() {
		now = append(now, w.server.List(t)...)
	}
	w.past.Restored(now)
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
	case "former": // as an earlier build of the operator has left it, or besides
		w.takeFormer(arg, live, value == "alone")
	case "pause":
		w.change(arg, func(o map[string]any) { nested(meta(o), "annotations")["roperator.com/paused"] = value })
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
		if arg == "all" {
			w.letGoAll()
			return
		}
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
		o := map[string]any{
			"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": key.Name, "namespace": key.Namespace},
		}
		if w.script.is(dense) { // a parent may adopt it
			_, _ = w.server.Create(o)
			return
		}
		w.own(o)
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

// takeFormer gives a parent that the handler knows the finalizer of an earlier build of the operator.
func (w *world) takeFormer(arg string, live *resource.Resource, alone bool) {
	if live == nil || live.IsDeleting() || w.isAside(live.Labels()) || !w.wasCalled(live.UID()) {
		return
	}
	w.change(arg, func(o map[string]any) {
		meta := nested(o, "metadata")
		held, _ := meta["finalizers"].([]any)
		held = slices.DeleteFunc(slices.Clone(held), func(f any) bool { return f == former || alone && f == finalizer })
		meta["finalizers"] = append(held, former)
	})
}

func (w *world) wasCalled(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.calls[uid] > 0
}

// letGoAll takes the foreign finalizer off every object.
func (w *world) letGoAll() {
	live := w.live()
	for _, uid := range sorted(live) {
		if r := live[uid]; slices.Contains(r.Finalizers(), foreignFinalizer) {
			w.actOn("let-go", r.Type().Kind+"/"+r.Name(), "")
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
	if !w.script.is(dense) {
		w.mu.down = time.Time{}
	}
	for _, p := range w.mu.processes {
		p.Cut(0)
	}
	w.mu.Unlock()
	w.server.Release()
	if w.script.is(dense) { // rejected references and occupied names stay
		w.letGoAll()
		return
	}
	w.mendRefs()
	w.mendReadiness()
	w.checkForeign()
	w.letGoAll()
	for _, r := range w.live() {
		if metaController(r) == "" && r.Type() != parentType() && !strings.HasPrefix(r.Name(), copied) {
			_ = w.server.Delete(r.Type(), r.Key())
		}
	}
}
