package fakeapi

import (
	"encoding/json"

	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/roperator/roperator/resource"
)

// A stored object is a version of one, and never changes. It is JSON, as in etcd:
// the trees of very many would keep the garbage collector busier than what is measured.
type stored struct {
	raw       []byte
	namespace string
	name      string
	uid       string
	version   string
	labels    pairs
	owners    []string // their UIDs
	deleting  bool
}

// keep returns a tree that came from JSON as it is stored.
func keep(tree map[string]any) *stored {
	raw, err := json.Marshal(tree)
	if err != nil {
		raw = []byte("{}") // can't be: it came from JSON
	}
	meta := metaOf(tree)
	s := &stored{raw: raw, namespace: text(meta, "namespace"), name: text(meta, "name"), uid: text(meta, "uid"), version: text(meta, "resourceVersion"), deleting: meta["deletionTimestamp"] != nil}
	held, _ := meta["labels"].(map[string]any)
	for name := range held {
		s.labels = append(s.labels, name, text(held, name))
	}
	refs, _ := meta["ownerReferences"].([]any)
	for _, ref := range refs {
		owner, _ := ref.(map[string]any)
		s.owners = append(s.owners, text(owner, "uid"))
	}
	return s
}

// tree returns the object for the caller to change, nil if s is.
func (s *stored) tree() map[string]any {
	if s == nil {
		return nil
	}
	var tree map[string]any
	_ = kjson.Unmarshal(s.raw, &tree) // can't fail: keep made it
	return tree
}

func (s *stored) resource() (*resource.Resource, error) { return resource.New(s.raw) }

// MarshalJSON is json.Marshaler's.
func (s *stored) MarshalJSON() ([]byte, error) { return s.raw, nil }

// pairs are labels, a name before each value. They are labels.Labels.
type pairs []string

func (p pairs) Lookup(name string) (string, bool) {
	for i := 0; i < len(p); i += 2 {
		if p[i] == name {
			return p[i+1], true
		}
	}
	return "", false
}

func (p pairs) Has(name string) bool {
	_, ok := p.Lookup(name)
	return ok
}

func (p pairs) Get(name string) string {
	value, _ := p.Lookup(name)
	return value
}
