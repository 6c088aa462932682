package testkit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/runner"
)

// comparePlan fails the test if the first pass, whose writes end at end, has done what wasn't
// planned, or has written a planned field otherwise, or if what was planned isn't done when
// all is. A pass puts off what has to wait until what it knows of the children is certain.
func (k *Kit) comparePlan(c *planCheck, all []Write, end int, settled bool) {
	k.t.Helper()
	k.plans.compared.Add(1)
	foreseen := k.foreseenBy(c)
	var wrong []string
	for _, line := range slices.Sorted(maps.Keys(k.doneFor(c, &foreseen, all[:end]))) {
		if !foreseen.lines[line] {
			wrong = append(wrong, "not planned: "+line)
		}
	}
	wrong = append(wrong, k.otherFields(c, all[:end])...)
	if settled {
		done := k.doneFor(c, &foreseen, all)
		for _, line := range slices.Sorted(maps.Keys(foreseen.lines)) {
			if !done[line] {
				wrong = append(wrong, "not done: "+line)
			}
		}
	}
	if len(wrong) > 0 {
		raw, _ := json.Marshal(c.planned)
		k.t.Errorf("testkit: the plan for %s isn't what was done:\n%s\nplan: %s\nwrites of the first pass: %v\nwrites after it: %v",
			c.key, strings.Join(wrong, "\n"), raw, all[c.writes:end], all[end:])
	}
}

// otherFields tells of the planned fields of updates that were written otherwise by the writes
// after the edit. all begins with those before it.
func (k *Kit) otherFields(c *planCheck, all []Write) (wrong []string) {
	engine, err := k.engine()
	if err != nil {
		return nil
	}
	for _, change := range c.planned {
		ref := object.Ref{Type: change.Type, Key: change.Object}
		was, is := c.before(ref, all[:c.writes]), lastOf(all[c.writes:], ref)
		if change.Verb != runner.VerbUpdate || change.Unsure || was == nil || is == nil || ref.Type == k.config.Parent {
			continue
		}
		done := map[string]any{}
		for _, f := range engine.Effects(was, is) {
			done[f.Path] = f.Desired
		}
		for _, f := range change.Fields {
			if value, ok := done[f.Path]; !ok || !isAllocated(f.Path) && !jsonvalue.Equal(comparableValue(value), comparableValue(f.Desired)) {
				wrong = append(wrong, fmt.Sprintf("written otherwise: %s: %s: %v, not %v", ref, f.Path, value, f.Desired))
			}
		}
	}
	return wrong
}

// isAllocated says whether an API server draws the values of the field at a path: it draws
// others in a dry run.
func isAllocated(path string) bool {
	field := path[strings.LastIndexByte(path, '.')+1:]
	return slices.Contains([]string{"nodePort", "healthCheckNodePort", "clusterIP", "clusterIPs"}, field)
}

// comparableValue returns a value without the fields that are allocated.
func comparableValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		value = maps.Clone(value)
		maps.DeleteFunc(value, func(field string, _ any) bool { return isAllocated(field) })
		return value
	case []any:
		if len(value) == 0 {
			return nil // as good as none
		}
	}
	return value
}

// before returns a child as it was before writes that came after those, nil if nobody knows.
func (c *planCheck) before(ref object.Ref, writes []Write) *resource.Resource {
	was := c.live[ref]
	if last := lastOf(writes, ref); last != nil && (was == nil || olderVersion(was.ResourceVersion(), last.ResourceVersion())) {
		return last
	}
	return was
}

// A foreseen is what a plan says, as comparable lines.
type foreseen struct {
	lines    map[string]bool
	waits    map[object.Ref]bool // these come at any time
	children bool                // whether any is written; the parent's status may follow from it
}

// foreseenBy returns what a plan says.
func (k *Kit) foreseenBy(c *planCheck) foreseen {
	out := foreseen{lines: map[string]bool{}, waits: map[object.Ref]bool{}}
	parent := object.Ref{Type: k.config.Parent, Key: c.key}
	for _, change := range c.planned {
		ref := object.Ref{Type: change.Type, Key: change.Object}
		switch {
		case change.Waits != "":
			out.waits[ref] = true
		case unrecorded(change.Type):
		case ref == parent:
			for _, f := range change.Fields {
				field, _, _ := strings.Cut(f.Path, ".")
				out.lines[field+" of "+ref.String()] = true
			}
		default:
			out.children = true
			out.lines[firstWrite(change)+" "+ref.String()] = true
		}
	}
	if out.children {
		delete(out.lines, "status of "+parent.String())
	}
	return out
}

// doneFor returns what the writes after the edit have done to the parent and its children, as
// comparable lines. all begins with those before it.
func (k *Kit) doneFor(c *planCheck, planned *foreseen, all []Write) map[string]bool {
	done := map[string]bool{}
	parent := object.Ref{Type: k.config.Parent, Key: c.key}
	for i, w := range all[c.writes:] {
		ref := object.Ref{Type: w.Type, Key: w.Key}
		was := c.before(ref, all[:c.writes+i])
		line := doneBy(w.Verb) + " " + ref.String()
		switch {
		case ref == parent && w.Verb == WriteUpdateStatus:
			if !planned.children {
				done["status of "+ref.String()] = true
			}
		case ref == parent:
			done["metadata of "+ref.String()] = true
		case planned.waits[ref], !k.isChildOf(c, w, was):
		case w.Verb == WriteCreate && done[WriteDelete+" "+ref.String()]: // the other half of a recreation
		case w.Verb == WriteDelete, w.Verb == WriteCreate, planned.lines[line], !marksOnly(&k.config, was, w.Object):
			done[line] = true
		}
	}
	return done
}

// unrecorded says whether the Kit doesn't record writes of objects of a type.
func unrecorded(t resource.Type) bool {
	gvk := t.GroupVersionKind()
	return uninteresting(schema.GroupVersionResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind) + "s"})
}

// isChildOf says whether an object that was written is a child of the parent.
func (k *Kit) isChildOf(c *planCheck, w Write, was *resource.Resource) bool {
	for _, res := range []*resource.Resource{w.Object, was} {
		if res != nil {
			controller := object.ControllerOf(res)
			return controller != nil && controller.UID == c.uid
		}
	}
	return slices.ContainsFunc(c.planned, func(p runner.Change) bool { return p.Type == w.Type && p.Object == w.Key })
}

// lastOf returns an object as the last of these writes has left it, nil if none has.
func lastOf(writes []Write, ref object.Ref) *resource.Resource {
	for _, w := range slices.Backward(writes) {
		if w.Type == ref.Type && w.Key == ref.Key {
			return w.Object
		}
	}
	return nil
}

// marksOnly says whether a write has changed nothing but the engine's mark, or nobody knows
// what it has changed. It doesn't ask the engine, whose comparison makes the plans: what that
// doesn't see would be missed here, too.
func marksOnly(cfg *config.Operator, was, is *resource.Resource) bool {
	if was == nil || is == nil {
		return true
	}
	strip := func(res *resource.Resource) string {
		object := res.Unstructured()
		object.SetResourceVersion("")
		object.SetGeneration(0)
		delete(object.Object, "status") // controllers write it in between
		annotations := object.GetAnnotations()
		delete(annotations, cfg.AppliedAnnotation())
		object.SetAnnotations(annotations)
		raw, _ := json.Marshal(object.Object)
		return string(raw)
	}
	return strip(was) == strip(is)
}

// firstWrite returns in one word what a change does first. A child that is adopted is given
// its owner before anything else happens to it.
func firstWrite(change runner.Change) string {
	adopts := func(f runner.FieldChange) bool { return f.Path == "metadata.ownerReferences" }
	if change.Verb == runner.VerbRecreate && slices.ContainsFunc(change.Fields, adopts) {
		return WriteUpdate
	}
	return doneBy(change.Verb)
}

// doneBy returns in one word what a verb, of a plan or of a write, does first.
func doneBy(verb string) string {
	switch verb {
	case runner.VerbRecreate:
		return WriteDelete
	case WritePatch, WriteApply:
		return WriteUpdate
	}
	return verb
}
