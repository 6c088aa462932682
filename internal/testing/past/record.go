package past

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/roperator/roperator/resource"
)

// A Key names an object, whichever instance of it there is.
type Key struct{ Kind, Namespace, Name string }

// KeyOf returns the key of an object.
func KeyOf(r *resource.Resource) Key { return Key{r.Type().Kind, r.Namespace(), r.Name()} }

// String returns Kind/namespace/name.
func (k Key) String() string { return k.Kind + "/" + k.Namespace + "/" + k.Name }

// A Ref is a reference: to the object of a name, to those that a label selector matches, or,
// with neither, to all of a kind.
type Ref struct {
	Kind      string
	Namespace string // empty: all namespaces, or the kind is cluster-scoped
	Name      string
	Selector  string
}

// String returns Kind@namespace/name?selector, without what is empty.
func (r Ref) String() string {
	text := r.Kind
	if r.Namespace != "" {
		text += "@" + r.Namespace
	}
	if r.Name != "" {
		text += "/" + r.Name
	}
	if r.Selector != "" {
		text += "?" + r.Selector
	}
	return text
}

// ParseRef reads what String returns.
func ParseRef(text string) (r Ref) {
	text, r.Selector, _ = strings.Cut(text, "?")
	text, r.Name, _ = strings.Cut(text, "/")
	r.Kind, r.Namespace, _ = strings.Cut(text, "@")
	return r
}

// Covers says whether a reference may be to an object, whatever its labels are.
func (r Ref) Covers(key Key) bool {
	return r.Kind == key.Kind && (r.Namespace == "" || r.Namespace == key.Namespace) && (r.Name == "" || r.Name == key.Name)
}

// Selects says whether a reference is to an object as it is.
func (r Ref) Selects(res *resource.Resource) bool {
	return r.Covers(KeyOf(res)) && r.matches(res.Labels())
}

// matches says whether a reference is to an object with these labels that it covers.
func (r Ref) matches(held map[string]string) bool {
	selector, err := labels.Parse(r.Selector)
	return err == nil && selector.Matches(labels.Set(held))
}

// Sorted returns references in an order, each once.
func Sorted(refs []Ref) []Ref {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(refs)
}

// A Record has the states that objects had. Each change is a moment. Moment 0 is that before
// the first change, when there was nothing. A Record may be used concurrently.
type Record struct {
	kinds []string

	mu       sync.Mutex
	moments  int
	of       map[Key][]epoch // in their order
	restored bool            // the server has gone back to a backup
	collided bool            // see Collided
}

// An epoch is the time in which an object was in one state. It ends with the moment before
// the next epoch of the object.
type epoch struct {
	from  int
	state *state // nil: there was no object
}

// A state is that of an object.
type state struct {
	uid, version string
	labels       map[string]string
	contents     string // JSON, without metadata and status
}

// NewRecord returns a record of the objects of some kinds, which begins when there are none.
func NewRecord(kinds ...string) *Record {
	return &Record{kinds: kinds, of: map[Key][]epoch{}}
}

// Note notes a change. It is for fakeapi.Hooks.Changed.
func (r *Record) Note(was, is map[string]any) {
	now := is
	if is == nil {
		now = was
	}
	kind, _ := now["kind"].(string)
	if !slices.Contains(r.kinds, kind) {
		return
	}
	meta, _ := now["metadata"].(map[string]any)
	text := func(name string) string {
		value, _ := meta[name].(string)
		return value
	}
	key := Key{kind, text("namespace"), text("name")}
	var next *state
	if is != nil {
		next = &state{uid: text("uid"), version: text("resourceVersion"), labels: map[string]string{}, contents: contentsOf(is)}
		held, _ := meta["labels"].(map[string]any)
		for name, value := range held {
			next.labels[name], _ = value.(string)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moments++
	for _, e := range r.of[key] {
		twice := next != nil && e.state != nil && e.state.uid == next.uid && e.state.version == next.version
		r.collided = r.collided || twice && (e.state.contents != next.contents || !maps.Equal(e.state.labels, next.labels))
	}
	r.appendLocked(key, next)
}

// Collided says whether an object has had two states of one resourceVersion: one before the
// server went back to a backup, and one after that. Nobody can tell them apart.
func (r *Record) Collided() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.collided
}

func (r *Record) appendLocked(key Key, next *state) {
	if r.of[key] == nil {
		r.of[key] = []epoch{{}}
	}
	r.of[key] = append(r.of[key], epoch{r.moments, next})
}

// Restored notes that the server has gone back to a backup, and has these objects of the
// recorded kinds now.
func (r *Record) Restored(objects []*resource.Resource) {
	now := map[Key]*state{}
	for _, res := range objects {
		now[KeyOf(res)] = &state{string(res.UID()), res.ResourceVersion(), res.Labels(), contentsOf(res.Unstructured().Object)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moments++
	r.restored = true
	for key, epochs := range r.of {
		before, after := epochs[len(epochs)-1].state, now[key]
		if before == nil && after == nil || before != nil && after != nil && before.uid == after.uid && before.version == after.version {
			continue
		}
		r.appendLocked(key, after)
	}
}

// contentsOf returns what counts of an object besides its metadata.
func contentsOf(object map[string]any) string {
	out := maps.Clone(object)
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(out, name)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return err.Error() // can't be: it came from JSON
	}
	return string(raw)
}

// Now returns the moment.
func (r *Record) Now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moments
}

// covered returns the epochs of the objects that some references cover, and whether the server
// has ever gone back to a backup.
func (r *Record) covered(refs []Ref) (of map[Key][]epoch, restored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[Key][]epoch{}
	for key, epochs := range r.of {
		if slices.ContainsFunc(refs, func(ref Ref) bool { return ref.Covers(key) }) {
			out[key] = epochs
		}
	}
	return out, r.restored
}

// is says whether an object is the same instance in the same state, and all of it is there.
func (s *state) is(res *resource.Resource) bool {
	return s.uid == string(res.UID()) && s.version == res.ResourceVersion() && maps.Equal(s.labels, res.Labels()) &&
		s.contents == contentsOf(res.Unstructured().Object)
}
