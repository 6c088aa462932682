package recording

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/object"
)

// wishNames are the fields in which the object of a desired child says what the handler
// said beside it: by handler.Keep, Leave, After and When.
func wishNames() []string { return []string{"keep", "leave", "after", "when"} }

// HiddenChild is [Hidden] for a child of an [Answer]: what the handler said beside it stays.
func HiddenChild(child map[string]any, hide Hider) map[string]any {
	out := Hidden(child, hide)
	for _, name := range wishNames() {
		if wish, ok := child[name]; ok {
			out[name] = wish
		}
	}
	return out
}

// childObject returns a desired child as an object without what isn't told; one that is to
// be kept has nothing but its identity, and says so. One with fields that are left to
// others says which these are, and one that waits to be created says for what.
func childObject(child any, hide Hider) (map[string]any, error) {
	child, wishes := encode.Inner(child)
	if keep, ok := child.(encode.Kept); ok {
		return keptObject(keep)
	}
	out, err := encode.Map(child)
	if err != nil {
		return nil, err
	}
	out = Hidden(out, hide) // before the wishes, so that no field of the child passes for one
	if len(wishes.Left) > 0 {
		out["leave"] = wishes.Left
	}
	if wishes.Closed {
		out["when"] = false
	}
	if len(wishes.Needs) > 0 {
		if out["after"], err = needTexts(wishes.Needs); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// keptObject returns the identity of a child that is to be kept.
func keptObject(keep encode.Kept) (map[string]any, error) {
	if keep.Resource == nil {
		return nil, fmt.Errorf("handler.Keep of nil")
	}
	t, metadata := keep.Resource.Type(), map[string]any{"name": keep.Resource.Name()}
	if ns := keep.Resource.Namespace(); ns != "" {
		metadata["namespace"] = ns
	}
	return map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "keep": true, "metadata": metadata}, nil
}

// needTexts names what a child needs before it is created.
func needTexts(needs []any) ([]string, error) {
	texts := make([]string, 0, len(needs))
	for _, need := range needs {
		if ref, ok := need.(handler.Ref); ok {
			texts = append(texts, object.Ref{Type: ref.Type, Key: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}.String())
			continue
		}
		t, key, err := encode.Identity(need)
		if err != nil {
			return nil, fmt.Errorf("handler.After: %w", err)
		}
		texts = append(texts, object.Ref{Type: t, Key: key}.String())
	}
	return texts, nil
}
