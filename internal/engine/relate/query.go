package relate

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// A Query is a reference as it is looked up: to the object of a name, to the objects that a
// label selector matches, or, with neither, to all objects. It is comparable.
type Query struct {
	Type      resource.Type
	Namespace string // empty: all namespaces, or the type is cluster-scoped
	Name      string // Namespace is set then, unless the type is cluster-scoped
	Selector  string // as labels.Selector prints it
	// Unserved says that the type wasn't served when the reference was resolved, so that
	// there are no such objects. Whether the type has namespaces wasn't known.
	Unserved bool
}

// Everything returns the query for all objects of the type and the namespace of q.
func (q Query) Everything() Query { return Query{Type: q.Type, Namespace: q.Namespace} }

// all says whether q is for all objects.
func (q Query) all() bool { return q.Name == "" && q.Selector == "" }

// servers returns what has to be watched to know what there is for q: any of them.
func (q Query) servers() []Query { return []Query{q, q.Everything(), {Type: q.Type}} }

// Options returns the options of a list or a watch of what q is for.
func (q Query) Options() metav1.ListOptions {
	opts := metav1.ListOptions{LabelSelector: q.Selector}
	if q.Name != "" {
		opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, q.Name).String()
	}
	return opts
}

// key returns the key of the object of that name.
func (q Query) key() types.NamespacedName {
	return types.NamespacedName{Namespace: q.Namespace, Name: q.Name}
}

// covers says whether every object that other is for is in the namespace of q.
func (q Query) covers(other Query) bool {
	return q.Type == other.Type && (q.Namespace == "" || q.Namespace == other.Namespace)
}

// String names what q is for, as in `Secret shop/token` and `Pod shop/[tier=gold]`.
func (q Query) String() string {
	what := q.Name
	if what == "" {
		what = "[" + q.Selector + "]"
	}
	if q.Namespace != "" {
		what = q.Namespace + "/" + what
	}
	return q.Type.Kind + " " + what
}

// Compare orders queries by type, namespace, name and selector.
func Compare(a, b Query) int {
	return cmp.Or(strings.Compare(a.Type.APIVersion, b.Type.APIVersion), strings.Compare(a.Type.Kind, b.Type.Kind),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Selector, b.Selector), compareBools(a.Unserved, b.Unserved))
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// A matcher says whether an object is what a query is for.
type matcher struct {
	Query
	selector labels.Selector // of Query.Selector
}

// Match returns those of the objects that one of the queries is for.
func Match(queries []Query, objects []*resource.Resource) (found []*resource.Resource) {
	named := make(map[Query]struct{}, len(queries))
	var broad []matcher
	for _, q := range queries {
		if q.Name != "" {
			named[q] = struct{}{}
		} else if !q.Unserved {
			broad = append(broad, newMatcher(q))
		}
	}
	for _, res := range objects {
		_, is := named[Query{Type: res.Type(), Namespace: res.Namespace(), Name: res.Name()}]
		var held labels.Set
		for i := 0; i < len(broad) && !is; i++ {
			if broad[i].Type != res.Type() {
				continue
			}
			if held == nil {
				held = res.Labels()
			}
			is = broad[i].matches(res, held)
		}
		if is {
			found = append(found, res)
		}
	}
	return found
}

// newMatcher returns the matcher of a query, whose selector must be one that labels.Parse
// has read.
func newMatcher(q Query) matcher {
	m := matcher{Query: q, selector: labels.Everything()}
	if q.Selector != "" {
		selector, err := labels.Parse(q.Selector)
		if err != nil {
			selector = labels.Nothing()
		}
		m.selector = selector
	}
	return m
}

// matches says whether the query is for this object, which must be of its type and have
// these labels.
func (m matcher) matches(res *resource.Resource, held labels.Set) bool {
	switch {
	case m.Namespace != "" && m.Namespace != res.Namespace():
		return false
	case m.Name != "":
		return m.Name == res.Name()
	}
	return m.selector.Empty() || m.selector.Matches(held)
}
