package histories

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/past"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// An operator is the handler of a process. Whatever it answers follows from the
// snapshot, so that the answer tells which one it had.
type operator struct {
	world   *world
	witness *past.Witness
}

func parentType() resource.Type {
	return resource.Type{APIVersion: "histories.example.com/v1", Kind: "Parent"}
}

func partType() resource.Type {
	return resource.Type{APIVersion: "histories.example.com/v1", Kind: "Part"}
}

// typeOf returns the type of a kind.
func typeOf(kind string) resource.Type {
	return map[string]resource.Type{"Parent": parentType(), "Part": partType(), "ConfigMap": k8s.ConfigMap, "Secret": k8s.Secret}[kind]
}

func textOf(r *resource.Resource, path ...string) string {
	value, _ := r.Field(path...)
	text, _ := value.(string)
	return text
}

// wanted returns the children that a parent wants, as Kind/name.
func wanted(parent *resource.Resource) []string {
	children := textOf(parent, "spec", "children")
	if children == "" {
		return nil
	}
	return strings.Split(children, ",")
}

// contents returns what a parent that is related to this wants in each of its children of a
// kind. Only Parts tell of related objects, to which no parent refers: two that tell of each
// other, or one that tells of itself, may never come to rest.
func contents(parent *resource.Resource, kind, related string) map[string]any {
	out := map[string]any{"value": textOf(parent, "spec", "value"), "of": parent.Name()}
	if kind == "Part" && related != "" {
		out["related"] = related
	}
	return out
}

func desired(parent *resource.Resource, related string) []any {
	var out []any
	for _, child := range wanted(parent) {
		kind, name, _ := strings.Cut(child, "/")
		out = append(out, map[string]any{
			"apiVersion": typeOf(kind).APIVersion, "kind": kind, "metadata": map[string]any{"name": name}, contentsField(kind): contents(parent, kind, related),
		})
	}
	return out
}

// contentsField returns the field in which a kind has its contents.
func contentsField(kind string) string {
	return map[string]string{"ConfigMap": "data", "Secret": "data", "Part": "spec", "Parent": "spec"}[kind]
}

// statusOf returns the status of a parent with these children that is related to this.
func statusOf(parent *resource.Resource, children []*resource.Resource, related string) map[string]any {
	var all []string
	for _, child := range children {
		kind := child.Type().Kind
		all = append(all, kind+"/"+child.Name()+"="+textOf(child, contentsField(kind), "value")+"@"+textOf(child, contentsField(kind), "of"))
	}
	slices.Sort(all)
	return map[string]any{"value": textOf(parent, "spec", "value"), "children": strings.Join(all, " "), "related": related}
}

// Sync is handler.Handler's.
func (o *operator) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	o.world.called(req.Parent)
	o.judge(req)
	switch textOf(req.Parent, "spec", "fail") {
	case "error":
		return nil, errors.New("as it was told to")
	case "panic":
		panic("as it was told to")
	case "exit":
		runtime.Goexit()
	}
	related := digest(slices.Collect(req.Related.All()))
	return &handler.SyncResponse{
		Status: statusOf(req.Parent, slices.Collect(req.Children.All()), related), Children: desired(req.Parent, related),
	}, nil
}

// Finalize is handler.Handler's.
func (o *operator) Finalize(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	o.world.called(req.Parent)
	o.judge(req)
	switch textOf(req.Parent, "spec", "fail") {
	case "error":
		return nil, errors.New("as it was told to")
	case "panic":
		panic("as it was told to")
	case "exit":
		runtime.Goexit()
	case "slow":
		if o.world.calls(req.Parent.UID()) < 3 {
			return &handler.FinalizeResponse{Retry: 200 * time.Millisecond}, nil
		}
	}
	o.world.finalized(req.Parent.UID())
	return &handler.FinalizeResponse{Finalized: true}, nil
}

// fails says whether the handler fails for a parent as it is now.
func fails(parent *resource.Resource) bool {
	return slices.Contains([]string{"error", "panic", "exit", "relate"}, textOf(parent, "spec", "fail")) || strings.Contains(textOf(parent, "spec", "refs"), badName)
}

// controllerOf returns the UID of an object's controller, "" if it has none.
func controllerOf(r *resource.Resource) types.UID {
	for _, ref := range r.OwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return ref.UID
		}
	}
	return ""
}

// labelOf returns the UID of the parent that the label of a child names, "" if it has
// none.
func labelOf(r *resource.Resource) types.UID {
	label, _ := r.Label(tracking)
	return types.UID(label)
}
