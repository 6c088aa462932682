package window

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/types"
)

// maxName is how long a name in a query may be, in bytes. Those of Kubernetes aren't longer.
const maxName = 253

// A target is what a query asks for.
type target struct {
	operator string
	parent   types.NamespacedName
}

// String names the parent and its operator for the log.
func (t target) String() string { return fmt.Sprintf("%q of %s", t.parent.String(), t.operator) }

// target reads a query. It answers the request and returns false if the query is wrong. parent says that
// it must name a parent.
func (w *Window) target(rw http.ResponseWriter, req *http.Request, parent bool) (target, bool) {
	names := w.source.Operators()
	t, err := readQuery(req.URL.RawQuery, parent)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return t, false
	}
	if t.operator == "" {
		t.operator = names[0]
	}
	if !slices.Contains(names, t.operator) {
		http.Error(rw, fmt.Sprintf("operator: there is none of the name %q; there are %s", t.operator, strings.Join(names, ", ")), http.StatusNotFound)
		return t, false
	}
	return t, true
}

// readQuery reads a query by itself.
func readQuery(query string, parent bool) (target, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return target{}, fmt.Errorf("query: %w", err)
	}
	known := []string{"operator"}
	if parent {
		known = append(known, "namespace", "name")
	}
	for name, list := range values {
		switch {
		case !slices.Contains(known, name):
			return target{}, fmt.Errorf("query: %q isn't known; there are %s", name, strings.Join(known, ", "))
		case len(list) > 1:
			return target{}, fmt.Errorf("query: %s is there more than once", name)
		case len(list[0]) > maxName:
			return target{}, fmt.Errorf("query: %s is longer than %d bytes", name, maxName)
		case strings.ContainsFunc(list[0], unicode.IsControl):
			return target{}, fmt.Errorf("query: %s has a control character", name)
		}
	}
	t := target{values.Get("operator"), types.NamespacedName{Namespace: values.Get("namespace"), Name: values.Get("name")}}
	if parent && t.parent.Name == "" {
		return t, fmt.Errorf("query: name is missing; write ?namespace=NAMESPACE&name=NAME")
	}
	return t, nil
}
