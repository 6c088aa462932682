package conformance

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/roperator/roperator/resource"
)

// check requires that, once all has come to rest, there was no error, and each child
// is what a new one would be.
func (h *history) check() {
	h.t.Helper()
	settle(h.t, h.Kit)
	h.giveUp()
	h.undisturbed()
	require.Empty(h.t, h.errors()[h.told:])
	for _, name := range h.names {
		if wrong := h.differs(name); wrong != "" {
			require.True(h.t, h.replaceByHand(name), wrong)
			require.Empty(h.t, h.differs(name))
		}
	}
	require.Len(h.t, h.children(), len(h.at))
	h.undisturbed()
}

// replaceByHand deletes a child that is updated only so, and waits for its successor.
// It returns false for any other.
func (h *history) replaceByHand(name string) bool {
	h.t.Helper()
	i, desired := h.at[name]
	if !desired {
		return false
	}
	child := h.table[name].state(h.t, name, i)
	if live := h.Get(child); live != nil && h.waiting[live.Type()] {
		h.remove(live)
		eventually(h.t, "a successor is there", func() bool {
			now := h.Get(child)
			return now != nil && now.UID() != live.UID()
		})
		settle(h.t, h.Kit)
		return true
	}
	return false
}

// differs says how a child differs from what it should be.
func (h *history) differs(name string) string {
	h.t.Helper()
	i, desired := h.at[name]
	if !desired {
		if live := h.Get(h.table[name].state(h.t, name, 0)); live != nil {
			return name + " isn't desired, and is there"
		}
		return ""
	}
	child := h.table[name].state(h.t, name, i)
	live := h.Get(child)
	if live == nil || live.IsDeleting() {
		return name + " isn't there"
	}
	if wrong := h.known(live); wrong != "" {
		return name + ": " + wrong
	}
	label, _ := live.Label("theirs")
	annotation, _ := live.Annotation("theirs")
	if h.labelled[name] == live.UID() && (label == "" || annotation == "") {
		return name + " has lost somebody's label"
	}
	_, untyped := clients(h.t, "somebody")
	fresh := alike(h.dryCreate(untyped, live.Type(), runtime.DeepCopyJSON(child)).Object)
	now := alike(live.Unstructured().Object)
	if h.theirs[name] == live.UID() {
		if wrong := says(alike(child), fresh, now, ""); wrong != "" {
			return name + ", which somebody else has changed, isn't as desired: " + wrong
		}
		return ""
	}
	if !reflect.DeepEqual(fresh, now) {
		return fmt.Sprintf("%s isn't what a new one would be (%s): %s", name, h.table[name].reason, diff.Diff(fresh, now))
	}
	return ""
}

// known says what is missing of that by which the operator knows its child.
func (h *history) known(live *resource.Resource) string {
	h.t.Helper()
	parent := h.Get(h.it())
	require.NotNil(h.t, parent)
	is := func(ref metav1.OwnerReference) bool {
		return ref.UID == parent.UID() && ref.Controller != nil && *ref.Controller
	}
	if u := live.Unstructured(); !slices.ContainsFunc(u.GetOwnerReferences(), is) {
		return "the parent isn't the controller"
	}
	if label, _ := live.Label("roperator.com/operator"); label != h.config.Name {
		return "the operator's label is missing"
	}
	if label, _ := live.Label("roperator.com/parent-uid"); label != string(parent.UID()) {
		return "the parent's label is missing"
	}
	return ""
}

// says tells where a live value isn't what a new one would be, in what is desired of
// it alone.
func says(desired, fresh, live any, path string) string {
	switch desired := desired.(type) {
	case map[string]any:
		fresh, _ := fresh.(map[string]any)
		live, ok := live.(map[string]any)
		if !ok && len(desired) > 0 {
			return path + " isn't there"
		}
		for key, value := range desired {
			if fresh[key] == nil {
				continue // it is dropped, or written elsewhere
			}
			if wrong := says(value, fresh[key], live[key], path+"."+key); wrong != "" {
				return wrong
			}
		}
		return ""
	case []any:
		fresh, _ := fresh.([]any)
		live, _ := live.([]any)
		for i, item := range desired {
			if len(fresh) != len(desired) {
				break // a webhook has added some
			}
			if !slices.ContainsFunc(live, func(now any) bool { return says(item, fresh[i], now, "") == "" }) {
				return fmt.Sprintf("%s[%d] isn't there", path, i)
			}
		}
		return ""
	}
	if !reflect.DeepEqual(fresh, live) {
		return fmt.Sprintf("%s is %v instead of %v", path, live, fresh)
	}
	return ""
}
