package storm

import (
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/recording"
	"github.com/roperator/roperator/resource"
)

// A Recording is what an operator was last asked about each parent.
type Recording struct {
	objects []map[string]any // each once, owners before what they own
}

// ReadRecording reads a recording.
func ReadRecording(r io.Reader) (*Recording, error) {
	var related, parents newest
	for entry, err := range recording.Read(r) {
		if err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
		for one := range entry.Request.Related.All() {
			related.note(one)
		}
		parents.note(entry.Request.Parent)
	}
	lives := map[types.UID]bool{}
	for _, one := range append(related.live(), parents.live()...) {
		lives[one.UID()] = true
	}
	isOwned := func(one *resource.Resource) bool {
		return len(ownersOf(one, lives)) > 0
	}
	var first, last []*resource.Resource
	for _, one := range related.live() {
		if isOwned(one) {
			last = append(last, one)
		} else {
			first = append(first, one)
		}
	}
	out := &Recording{}
	for _, one := range append(append(first, parents.live()...), last...) {
		out.objects = append(out.objects, asMade(one, ownersOf(one, lives)))
	}
	return out, nil
}

// A newest is the newest state of each of some objects, in the order in which they were met.
type newest struct {
	order []object.Ref
	state map[object.Ref]*resource.Resource
}

func (n *newest) note(one *resource.Resource) {
	of := object.RefOf(one)
	if n.state == nil {
		n.state = map[object.Ref]*resource.Resource{}
	}
	if n.state[of] == nil {
		n.order = append(n.order, of)
	}
	n.state[of] = one
}

// live returns those that aren't being deleted.
func (n *newest) live() (out []*resource.Resource) {
	for _, of := range n.order {
		if !n.state[of].IsDeleting() {
			out = append(out, n.state[of])
		}
	}
	return out
}

// ownersOf returns an object's references to owners that are there.
func ownersOf(one *resource.Resource, lives map[types.UID]bool) (out []any) {
	for _, ref := range one.OwnerReferences() {
		if lives[ref.UID] {
			out = append(out, ownerReference(ref))
		}
	}
	return out
}

func ownerReference(ref metav1.OwnerReference) map[string]any {
	out := map[string]any{"apiVersion": ref.APIVersion, "kind": ref.Kind, "name": ref.Name, "uid": string(ref.UID)}
	if ref.Controller != nil {
		out["controller"] = *ref.Controller
	}
	if ref.BlockOwnerDeletion != nil {
		out["blockOwnerDeletion"] = *ref.BlockOwnerDeletion
	}
	return out
}

// asMade returns an object as somebody would make it: without what an API server has set and the
// operator has added. Its UID stays, since its owners, or what it owns, are known by that.
func asMade(r *resource.Resource, owners []any) map[string]any {
	tree := r.Unstructured().Object
	meta, _ := tree["metadata"].(map[string]any)
	for _, field := range []string{"resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers", "ownerReferences", "selfLink"} {
		delete(meta, field)
	}
	if len(owners) > 0 {
		meta["ownerReferences"] = owners
	}
	return tree
}

// Recorded adds steps that create what was recorded.
func (s *Scenario) Recorded(r *Recording) {
	if r == nil {
		s.fail(errors.New("the recording is nil"))
		return
	}
	for _, one := range r.objects {
		s.Create(one)
	}
}
