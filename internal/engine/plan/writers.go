package plan

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A Writer is who, by managedFields, has written something of an object.
type Writer struct {
	Manager     string // of a Secret, Hidden stands for a name that others choose
	Operation   string // Apply or Update
	Subresource string
	Time        time.Time // of the manager's last write of the object; zero: not known
	Self        bool      // the manager is the operator
}

// A WrittenField is a field that differs, with who has written its live value.
type WrittenField struct {
	FieldChange         // the values of a Secret are Hidden
	By          *Writer // nil: nobody owns the field
	// Perhaps is, where nobody owns the field, who else has written the object last: the field
	// may have been removed. Nil: nobody has.
	Perhaps *Writer
}

// WrittenFields lists the fields for which an action is to be done, in the order of their paths,
// but for those that the API server may undo: see foreseeable. entries are the managedFields of the
// live object, and operator is the operator's name.
func WrittenFields(a *Action, entries []metav1.ManagedFieldsEntry, operator string) []WrittenField {
	return writtenFields(a.Kind, a.foreseeable(), entries, operator, "")
}

// RejectedFields lists the fields of an action's Rejection, like WrittenFields, but for the applied annotation.
func RejectedFields(s *catalog.Settings, a *Action) []WrittenField {
	diffs := slices.DeleteFunc(slices.Clone(a.Rejection.Diffs), func(d merge.Difference) bool { return d.Path == markPath(s) })
	return writtenFields(a.Kind, diffs, a.Rejection.Entries, s.Config.Name, "")
}

// WrittenStatus is WrittenFields for the fields of a parent's status that are to change.
func WrittenStatus(k *catalog.Kind, fields []FieldChange, entries []metav1.ManagedFieldsEntry, operator string) []WrittenField {
	diffs := make([]merge.Difference, 0, len(fields))
	for _, f := range fields {
		diffs = append(diffs, merge.Difference{Path: f.Path, Live: f.Live, Desired: f.Desired})
	}
	return writtenFields(k, diffs, entries, operator, "status")
}

func writtenFields(k *catalog.Kind, diffs []merge.Difference, entries []metav1.ManagedFieldsEntry, operator, subresource string) []WrittenField {
	out := make([]WrittenField, 0, len(diffs))
	held := holdingsOf(entries)
	for _, d := range diffs {
		f := WrittenField{FieldChange: concealedFields(k, []FieldChange{{d.Path, d.Live, d.Desired}})[0]}
		if owner, ok := writerOf(k, d, held); ok {
			f.By = newWriter(k, owner, operator)
		} else if other, ok := newestBut(entries, operator, subresource); ok {
			f.Perhaps = newWriter(k, other, operator)
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b WrittenField) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

func newWriter(k *catalog.Kind, entry metav1.ManagedFieldsEntry, operator string) *Writer {
	w := &Writer{Manager: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource, Self: entry.Manager == operator}
	if entry.Time != nil {
		w.Time = entry.Time.Time
	}
	if k.Secret() && !w.Self {
		w.Manager = Hidden
	}
	return w
}

// A heldEntry is an entry of managedFields with what it owns.
type heldEntry struct {
	entry    metav1.ManagedFieldsEntry
	holdings *merge.Holdings
}

// holdingsOf returns what each entry owns. Entries that can't be read are left out.
func holdingsOf(entries []metav1.ManagedFieldsEntry) (held []heldEntry) {
	for _, entry := range entries {
		if entry.FieldsV1 == nil {
			continue
		}
		if holdings, err := merge.ParseHoldings([]string{entry.FieldsV1.GetRawString()}); err == nil {
			held = append(held, heldEntry{entry, holdings})
		}
	}
	return held
}

// writerOf returns the newest of the entries that own the very field of a difference. If there is
// none, it is the newest of those that own something in it, or a list or an object around it.
func writerOf(k *catalog.Kind, d merge.Difference, entries []heldEntry) (owner metav1.ManagedFieldsEntry, ok bool) {
	var around metav1.ManagedFieldsEntry
	some := false
	for _, e := range entries {
		switch {
		case k.Comparison.Holds(e.holdings, d):
			if !ok || isNewer(e.entry, owner) {
				owner, ok = e.entry, true
			}
		case d.Live != nil && e.holdings.Concerns(d):
			if !some || isNewer(e.entry, around) {
				around, some = e.entry, true
			}
		}
	}
	if ok {
		return owner, true
	}
	return around, some
}

// newestBut returns the newest entry of the object, or of a subresource, that isn't of this
// manager.
func newestBut(entries []metav1.ManagedFieldsEntry, manager, subresource string) (last metav1.ManagedFieldsEntry, ok bool) {
	for _, entry := range entries {
		if entry.Manager != manager && entry.Subresource == subresource && (!ok || isNewer(entry, last)) {
			last, ok = entry, true
		}
	}
	return last, ok
}

// Judge finds out, without a request, which of the differences of an action that asks for managedFields the API server,
// or a webhook, has made of the desired values: those in fields that the operator still owns by
// managedFields.
func Judge(a *Action, entries []metav1.ManagedFieldsEntry, operator string) Normalized {
	held, _ := Held(&a.Kind.Comparison, a.Diffs, merge.FieldsOf(entries, operator))
	return Normalized{Rest: held}
}

// Outdated returns an action with the fields in which a child of the strategy OnDelete differs from
// what it would be if it were created now, false if there are none. Nothing is done about them until
// something deletes the child. d must have been part of an Input of Build. entries are the
// managedFields of the child.
func Outdated(s *catalog.Settings, d *Desired, live *resource.Resource, entries []metav1.ManagedFieldsEntry) (Action, bool) {
	a := Action{Verb: VerbNone, Kind: d.kind, Ref: d.ref, Live: live, Want: d, Unknown: true}
	mark := readMark(s, live)
	was := mark.gave(d, nil)
	a.compare(mark, was, nil, ownership{}, nil, &Action{})
	if was != givenOther {
		_, a.Diffs = Held(&a.Kind.Comparison, a.Diffs, merge.FieldsOf(entries, s.Config.Name))
	}
	return a, len(a.Diffs) > 0
}

// WaitsForDelete says whether nothing is done about the differences of a child until something
// deletes it.
func WaitsForDelete(d *Desired) bool { return d.kind.Child.Strategy == config.OnDelete }

// Ref returns which object is desired.
func (d *Desired) Ref() object.Ref { return d.ref }

// Kind returns the type of the child.
func (d *Desired) Kind() *catalog.Kind { return d.kind }

// Kept says whether the live child is to stay exactly as it is (handler.Keep).
func (d *Desired) Kept() bool { return d.keep }
