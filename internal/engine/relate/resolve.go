package relate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/resource"
)

// A Resolver says what references mean. It is immutable.
type Resolver struct {
	rules []rule // in the order of config.Operator.Related
}

// A rule is what the configuration says of a related type.
type rule struct {
	config.Related
	fields []fieldpath.Path
}

// NewResolver returns the resolver of a configuration, which must be valid.
func NewResolver(related []config.Related) *Resolver {
	r := &Resolver{}
	for _, of := range related {
		one := rule{Related: of}
		for _, text := range of.Fields {
			if p, err := fieldpath.Parse(text); err == nil { // Validate has refused any other
				one.fields = append(one.fields, p)
			}
		}
		r.rules = append(r.rules, one)
	}
	return r
}

// Queries returns what a parent refers to: by the fields that the configuration names, and
// by what its handler says. They are sorted, and each is there once. The error names the
// field or the reference that can't be meant; only a change of the parent mends that. types
// says how the related types are served. References to one that isn't served are taken as
// they are.
func (r *Resolver) Queries(types *catalog.Catalog, parent *resource.Resource, refs []handler.Ref) ([]Query, error) {
	var out []Query
	if err := r.each(types, parent, refs, func(q Query, _ fieldpath.Path) { out = append(out, q) }); err != nil {
		return nil, err
	}
	slices.SortFunc(out, Compare)
	return slices.Compact(out), nil
}

// Origins returns, for each of Queries, where the parent says it: the paths of fields, and "Relate"
// for what the handler says. What Queries would refuse is left out.
func (r *Resolver) Origins(types *catalog.Catalog, parent *resource.Resource, refs []handler.Ref) map[Query][]string {
	out := map[Query][]string{}
	_ = r.each(types, parent, refs, func(q Query, field fieldpath.Path) {
		from := "Relate"
		if field != nil {
			from = field.String()
		}
		if !slices.Contains(out[q], from) {
			out[q] = append(out[q], from)
		}
	})
	return out
}

// each calls do for each query of a parent, with the field that it comes from; nil: from the
// handler. The error is that of Queries.
func (r *Resolver) each(types *catalog.Catalog, parent *resource.Resource, refs []handler.Ref, do func(q Query, field fieldpath.Path)) error {
	var errs []error
	for _, of := range r.rules {
		for _, p := range of.fields {
			names, err := namesAt(parent, p)
			for _, name := range names {
				var q Query
				if q, err = r.query(types, parent, handler.Ref{Type: of.Type, Name: name}); err != nil {
					break
				}
				do(q, p)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("related: %s: %w", p, err))
			}
		}
	}
	for _, ref := range refs {
		q, err := r.query(types, parent, ref)
		if err != nil {
			errs = append(errs, fmt.Errorf("related: Relate: %w", err))
			continue
		}
		do(q, nil)
	}
	if len(errs) > 0 {
		return handler.Permanent(errors.Join(errs...))
	}
	return nil
}

// query returns what a reference of a parent is looked up by.
func (r *Resolver) query(types *catalog.Catalog, parent *resource.Resource, ref handler.Ref) (Query, error) {
	at := slices.IndexFunc(r.rules, func(of rule) bool { return of.Type == ref.Type })
	if at < 0 {
		return Query{}, fmt.Errorf("%s isn't among config.Operator.Related; add it there", ref.Type)
	}
	of := r.rules[at]
	k := types.RelatedTo(of.Type)
	q := Query{Type: of.Type, Name: ref.Name, Unserved: k.Unserved}
	if ref.Name != "" {
		if ref.Selector != "" {
			return Query{}, fmt.Errorf("%s: a Name and a Selector; a reference has one of them", of.Type)
		}
		if wrong := nameErrors(ref.Name); len(wrong) > 0 {
			return Query{}, fmt.Errorf("%q isn't the name of a %s: %s", shown(ref.Name), of.Type.Kind, wrong[0])
		}
	}
	if len(ref.Selector) > mostSelector {
		return Query{}, fmt.Errorf("%s: Selector: it is longer than %d characters", of.Type, mostSelector)
	}
	if ref.Selector != "" {
		selector, err := labels.Parse(ref.Selector)
		if err != nil {
			return Query{}, fmt.Errorf("%s: Selector: %w", of.Type, err)
		}
		q.Selector = selector.String()
	}
	var err error
	q.Namespace, err = of.namespace(k, parent, ref)
	return q, err
}

// namespace returns the namespace in which a reference of a parent is looked up.
func (of rule) namespace(k *catalog.Kind, parent *resource.Resource, ref handler.Ref) (string, error) {
	if !k.Namespaced { // nor is one that isn't served
		return "", nil
	}
	own := parent.Namespace()
	switch namespace := ref.Namespace; {
	case namespace == "" && own == "":
		return "", fmt.Errorf("%s: no namespace; the parent is cluster-scoped, so the reference must name one", of.Type)
	case namespace == "" || namespace == own:
		return own, nil
	case !of.AnyNamespace:
		return "", fmt.Errorf("%s: namespace %q isn't the parent's; config.Related.AnyNamespace would allow that", of.Type, shown(namespace))
	case namespace == handler.AllNamespaces && ref.Name != "":
		return "", fmt.Errorf("%s: the name %q in all namespaces; a name needs one namespace", of.Type, ref.Name)
	case namespace == handler.AllNamespaces:
		return "", nil
	default:
		if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
			return "", fmt.Errorf("%s: %q isn't the name of a namespace: %s", of.Type, shown(namespace), wrong[0])
		}
		return namespace, nil
	}
}

// mostSelector is how long a selector may be. It is a part of URLs, and who writes a parent may
// have written it: a watch that a proxy or the API server refuses for its length would be tried
// for ever.
const mostSelector = 8192

// nameErrors says why no object can have a name.
func nameErrors(name string) []string {
	switch {
	case len(name) > validation.DNS1123SubdomainMaxLength:
		return []string{fmt.Sprintf("it is longer than %d characters", validation.DNS1123SubdomainMaxLength)}
	case strings.ContainsFunc(name, unicode.IsControl):
		return []string{"it has a control character"}
	}
	return content.IsPathSegmentName(name)
}

// shown returns a text that anybody may have written, short enough for an error.
func shown(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// namesAt returns the names that the parent has at a path. What isn't there is no name, nor
// is an empty text.
func namesAt(parent *resource.Resource, p fieldpath.Path) (names []string, err error) {
	value, ok := parent.Field(p[0].Field)
	if !ok {
		return nil, nil
	}
	for found := range p[1:].Values(value) {
		items, isList := found.([]any)
		if !isList {
			items = []any{found}
		}
		for _, item := range items {
			name, isText := item.(string)
			if item != nil && !isText {
				return nil, errors.New("neither a name nor a list of names")
			}
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
