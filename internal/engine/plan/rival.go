package plan

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
)

// A Rival is who, by managedFields, has last changed an object that the operator is about to
// change back. The zero Rival is nobody in particular.
type Rival struct {
	Manager   string // the field manager
	Operation string // Apply or Update
	// Namesake says that the field manager is the operator's own: another process of the
	// same name has written what this process hasn't.
	Namesake bool
}

// String says who the rival is, "" if that isn't known. about is the kind of the object: of
// a Secret no name is told that others choose.
func (r Rival) String(operator string, about *catalog.Kind) string {
	switch {
	case r.Namesake:
		return fmt.Sprintf("another process of the operator %q seems to do that, since its field manager is this operator's too: a second installation, or another build that runs beside this one without a common lease", operator)
	case r.Manager == "":
		return ""
	case about.Secret():
		return "another field manager does that (its name is hidden, since it may quote a Secret)"
	}
	return fmt.Sprintf("the field manager %q does that (%s)", r.Manager, r.Operation)
}

// Contested says whether an action changes back what somebody else has made of a child.
// made says whether the child is one that this process has wanted.
func (a *Action) Contested(made bool) bool {
	return a.Live != nil && (a.Restores && a.Want != nil || a.Verb == VerbDelete && !made)
}

// RivalOf returns who has made of a child what a contested action changes back. entries
// are the managedFields of the child as the pass saw it, and operator is the operator's name.
func RivalOf(s *catalog.Settings, a *Action, entries []metav1.ManagedFieldsEntry, operator string) Rival {
	if a.Verb == VerbDelete { // this process never wrote the child
		if len(merge.FieldsOf(entries, operator)) > 0 {
			return Rival{Manager: operator, Namesake: true}
		}
		return newest(entries, operator, "")
	}
	diffs := a.Diffs
	if was := readMark(s, a.Live); was.hash != a.Want.markHash() { // the mark that this process has set is another one
		diffs = slices.Concat([]merge.Difference{{Path: markPath(s), Live: "", Desired: ""}}, diffs)
	}
	for _, d := range diffs {
		if owner, ok := ownerOf(a.Kind, d, entries); ok {
			return Rival{Manager: owner.Manager, Operation: string(owner.Operation), Namesake: owner.Manager == operator}
		}
	}
	return newest(entries, operator, "")
}

// StatusRivalOf returns who has written a status that this process hasn't. entries are the
// managedFields of the parent.
func StatusRivalOf(entries []metav1.ManagedFieldsEntry, operator string) Rival {
	if last := newest(entries, "", "status"); last.Manager != operator {
		return last
	}
	return Rival{Manager: operator, Namesake: true}
}

// ownerOf returns the newest of the entries that own the field of a difference.
func ownerOf(k *catalog.Kind, d merge.Difference, entries []metav1.ManagedFieldsEntry) (owner metav1.ManagedFieldsEntry, ok bool) {
	for _, entry := range entries {
		if entry.Subresource != "" || entry.FieldsV1 == nil || ok && !isNewer(entry, owner) {
			continue
		}
		holdings, err := merge.ParseHoldings([]string{entry.FieldsV1.GetRawString()})
		if err == nil && k.Comparison.Holds(holdings, d) {
			owner, ok = entry, true
		}
	}
	return owner, ok
}

// newest returns who has written an object, or a subresource of it, last. That may be
// somebody who has changed something else: if it is the manager except, it tells nothing.
func newest(entries []metav1.ManagedFieldsEntry, except, subresource string) Rival {
	var last *metav1.ManagedFieldsEntry
	for i := range entries {
		if entries[i].Subresource == subresource && (last == nil || isNewer(entries[i], *last)) {
			last = &entries[i]
		}
	}
	if last == nil || last.Manager == except {
		return Rival{}
	}
	return Rival{Manager: last.Manager, Operation: string(last.Operation)}
}

func isNewer(a, b metav1.ManagedFieldsEntry) bool {
	return a.Time != nil && (b.Time == nil || b.Time.Before(a.Time))
}
