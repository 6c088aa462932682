package merge

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	managed "sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
)

// A MadeField is a field of a live object that no desired object has ever said:
// the API server, or a webhook, may have made it of what was said. It may also be
// somebody else's: OwnedAlone tells. A MadeField is immutable.
type MadeField struct {
	steps []madeStep
	live  managed.Path // the field in managedFields of the live object
}

// A madeStep is one step of the path of a MadeField: to a field of an object, or to
// an item of a keyed list.
type madeStep struct {
	field string
	key   listKey // of the list
	item  any     // an item with the same key; nil for the step to a field
}

// Shape returns the path of the field in its type: list items have no keys there.
func (f MadeField) Shape() string {
	var b strings.Builder
	for _, step := range f.steps {
		if step.item != nil {
			b.WriteString("[]")
			continue
		}
		b.WriteString("." + step.field)
	}
	return b.String()
}

// Concerns says whether a path, as an error of the API server names a field, leads to
// the field, into it, or to what it is in. Items of lists aren't told apart.
func (f MadeField) Concerns(path string) bool {
	shape, named := f.Shape(), "."+withoutIndexes(path)
	return leadsTo(shape, named) || leadsTo(named, shape)
}

// leadsTo says whether a shape is that of another one's field or of something around
// it.
func leadsTo(around, shape string) bool {
	below, ok := strings.CutPrefix(shape, around)
	return ok && (below == "" || below[0] == '.' || below[0] == '[')
}

// withoutIndexes empties the brackets in a path.
func withoutIndexes(path string) string {
	var b strings.Builder
	for path != "" {
		before, after, found := strings.Cut(path, "[")
		b.WriteString(before)
		if !found {
			break
		}
		b.WriteString("[]")
		_, path, _ = strings.Cut(after, "]")
	}
	return b.String()
}

// Made returns the fields of merged that neither the desired object nor an earlier
// one has said. merged must be the result of Merge for live, desired and former, so
// that it lacks what only former holds. Fields of metadata aren't among the result.
// Nor are ignored fields and what holds them, the keys of list items, items that
// desired lacks, and what is within lists that are compared whole.
func (c *Comparison) Made(live, merged, desired map[string]any) []MadeField {
	w := madeWalk{}
	w.object(live, merged, desired, nil, c.root(nil))
	return w.found
}

// A madeWalk is one walk through a live object, a merged one and a desired one.
type madeWalk struct {
	steps []madeStep
	live  managed.Path
	found []MadeField
}

// object walks through the fields of an object, but for those in except.
func (w *madeWalk) object(live, merged, desired map[string]any, except []string, at place) {
	for _, key := range slices.Sorted(maps.Keys(merged)) {
		below := at.child(key)
		have, ok := live[key]
		if !ok || slices.Contains(except, key) || at.part.excludes(key) || below.part == partMetadata || below.ignore.here() {
			continue
		}
		steps, path := w.steps, w.live
		w.steps, w.live = append(steps, madeStep{field: key}), append(path, managed.PathElement{FieldName: &key})
		if desired[key] == nil && !isTextMap(at.schema) && len(below.ignore) == 0 {
			w.found = append(w.found, MadeField{steps: slices.Clone(w.steps), live: slices.Clone(w.live)})
		} else if desired[key] != nil {
			w.value(have, merged[key], desired[key], below)
		}
		w.steps, w.live = steps, path
	}
}

// isTextMap says whether a schema is that of a map of plain scalars, such as labels or
// the data of a ConfigMap. The API server makes no keys in such a map.
func isTextMap(s *listkeys.Node) bool {
	return s != nil && s.Kind == listkeys.Map && s.Elem != nil && s.Elem.Kind == listkeys.Scalar
}

// value walks through a field that is desired.
func (w *madeWalk) value(live, merged, desired any, at place) {
	switch want := desired.(type) {
	case map[string]any:
		have, _ := live.(map[string]any)
		made, _ := merged.(map[string]any)
		w.object(have, made, want, nil, at)
	case []any:
		have, _ := live.([]any)
		made, _ := merged.([]any)
		if form, key := listFormOf(want, at.schema); form == listKeyed && !key.byShape && key.fits(have) {
			w.items(have, made, want, key, at)
		}
	}
}

// items walks through the items of a keyed list that are desired. A live item whose
// keys are to be changed counts as the item that it becomes.
func (w *madeWalk) items(live, merged, desired []any, key listKey, at place) {
	e := keyedEdit{live: live, wanted: desired, key: key}
	e.positions, e.used = key.pair(live, desired)
	e.pairMoved(at)
	for i, want := range desired {
		j := e.position(i)
		if j < 0 {
			continue
		}
		step := madeStep{key: key, item: want}
		made, _ := step.in(merged).(map[string]any)
		have, _ := live[j].(map[string]any)
		said, _ := want.(map[string]any)
		below := at.item(want, i)
		if made == nil || have == nil || below.ignore.here() {
			continue
		}
		steps, path := w.steps, w.live
		w.steps, w.live = append(steps, step), append(path, key.element(have))
		w.object(have, made, said, key.names, below)
		w.steps, w.live = steps, path
	}
}

// element returns how managedFields name an item of a list.
func (k listKey) element(item any) managed.PathElement {
	fields := make(value.FieldList, 0, len(k.names))
	for _, name := range k.names {
		fields = append(fields, value.Field{Name: name, Value: value.NewValueInterface(k.value(item, name))})
	}
	fields.Sort()
	return managed.PathElement{Key: &fields}
}

// in returns the value to which a step leads in an object or a list, nil if there is
// none.
func (s madeStep) in(v any) any {
	if s.item == nil {
		object, _ := v.(map[string]any)
		return object[s.field]
	}
	list, _ := v.([]any)
	if i := s.index(list); i >= 0 {
		return list[i]
	}
	return nil
}

// index returns the position of the item in a list, -1 if the list lacks it.
func (s madeStep) index(list []any) int {
	return slices.IndexFunc(list, func(item any) bool { return s.key.equal(item, s.item) })
}

// OwnedAlone returns those fields that the manager owns and nobody else does, by the
// managedFields of the live object: neither the field itself nor anything in it.
// Fields that a subresource has set are somebody else's, whoever did that.
func OwnedAlone(fields []MadeField, entries []metav1.ManagedFieldsEntry, manager string) ([]MadeField, error) {
	ours, others := managed.NewSet(), managed.NewSet()
	for _, entry := range entries {
		owned, err := ownedFields(entry)
		if err != nil {
			return nil, err
		}
		if entry.Manager == manager && entry.Subresource == "" {
			ours = ours.Union(owned)
		} else {
			others = others.Union(owned)
		}
	}
	return slices.DeleteFunc(slices.Clone(fields), func(f MadeField) bool {
		return !ownsAny(ours, f.live) || ownsAny(others, f.live)
	}), nil
}

// ownsAny says whether a set has a field or anything below it.
func ownsAny(set *managed.Set, path managed.Path) bool {
	if set.Has(path) {
		return true
	}
	for _, element := range path {
		below, ok := set.Children.Get(element)
		if !ok {
			return false
		}
		set = below
	}
	return !set.Empty()
}

// WithoutMade returns an object without the given fields. The object stays as it is.
func WithoutMade(object map[string]any, fields []MadeField) map[string]any {
	return TakeMade(object, nil, fields)
}

// SortMade compares fields of an object with the same fields of answer: what the API
// server makes of the object if it lacks these fields.
func SortMade(object, answer map[string]any, fields []MadeField) (same, changed, lost []MadeField) {
	for _, f := range fields {
		switch now := f.in(answer); {
		case now == nil:
			lost = append(lost, f)
		case jsonvalue.Equal(f.in(object), now):
			same = append(same, f)
		default:
			changed = append(changed, f)
		}
	}
	return same, changed, lost
}

// TakeMade returns an object that has at the given fields the values of another one,
// or lacks the fields that the other one lacks. The objects stay as they are.
func TakeMade(object, from map[string]any, fields []MadeField) map[string]any {
	for _, f := range fields {
		object, _ = edited(object, f.steps, f.in(from)).(map[string]any)
	}
	return object
}

// in returns the value of the field in an object, nil if the object lacks it.
func (f MadeField) in(object map[string]any) any {
	var v any = object
	for _, step := range f.steps {
		v = step.in(v)
	}
	return v
}

// edited returns a value with another value at a path, or without it if that is nil.
// What the path leads through must exist in v.
func edited(v any, path []madeStep, to any) any {
	if len(path) == 0 {
		return to
	}
	step := path[0]
	if step.item == nil {
		object, _ := v.(map[string]any)
		object = maps.Clone(object)
		if below := edited(object[step.field], path[1:], to); below != nil {
			object[step.field] = below
		} else {
			delete(object, step.field)
		}
		return object
	}
	list, _ := v.([]any)
	list = slices.Clone(list)
	if i := step.index(list); i >= 0 {
		list[i] = edited(list[i], path[1:], to)
	}
	return list
}
