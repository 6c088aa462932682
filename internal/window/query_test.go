package window

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuery(t *testing.T) {
	source := newSource()
	w, _ := opened(t, source)
	long := strings.Repeat("a", 254)
	for name, tc := range map[string]struct {
		reason string
		path   string
		status int
		text   string // in the answer
	}{
		"Fine":               {"all there is", "recording?operator=shops&namespace=shop&name=a", 200, `{"parent":"a"}`},
		"Cluster-scoped":     {"it has no namespace", "recording?name=a", 200, `{"parent":"a"}`},
		"Empty":              {"the first operator, no namespace", "recording?operator=&namespace=&name=a", 200, `{"parent":"a"}`},
		"Longest":            {"a name may be so long", "recording?name=" + long[1:], 200, long[1:]},
		"Unknown operator":   {"it says which there are", "overview?operator=site", 404, "there are sites, shops"},
		"Hostile operator":   {"it is no HTML", "plan?operator=" + url.QueryEscape("<script>\x22"), 404, "there are sites, shops"},
		"No name":            {"which parent?", "parent?namespace=shop", 400, "name is missing"},
		"Empty name":         {"which parent?", "recording?name=", 400, "name is missing"},
		"Long name":          {"nothing is called so", "parent?name=" + long, 400, "name is longer than 253 bytes"},
		"Long namespace":     {"nothing is called so", "parent?name=a&namespace=" + long, 400, "namespace is longer than 253 bytes"},
		"Long operator":      {"nothing is called so", "overview?operator=" + long, 400, "operator is longer than 253 bytes"},
		"Newline":            {"nothing is called so", "parent?name=a%0a", 400, "name has a control character"},
		"Zero":               {"nothing is called so", "parent?name=a&namespace=%00", 400, "namespace has a control character"},
		"Delete":             {"nothing is called so", "plan?operator=%7f", 400, "operator has a control character"},
		"C1":                 {"nothing is called so", "parent?name=%c2%85", 400, "name has a control character"},
		"Two names":          {"which one?", "parent?name=a&name=b", 400, "name is there more than once"},
		"Two operators":      {"which one?", "overview?operator=sites&operator=sites", 400, "operator is there more than once"},
		"Unknown parameter":  {"a mistake isn't passed over", "overview?opreator=sites", 400, `"opreator" isn't known`},
		"Parent of overview": {"nobody would heed it", "overview?name=a", 400, `"name" isn't known`},
		"No query":           {"it can't be read", "overview?operator=%zz", 400, "query: "},
		"Semicolon":          {"it can't be read", "overview?a=b;c", 400, "query: "},
	} {
		t.Run(name, func(t *testing.T) {
			rec := answerTo(w, http.MethodGet, "/window/"+tc.path, nil)
			require.Equal(t, tc.status, rec.Code, tc.reason)
			require.Contains(t, rec.Body.String(), tc.text, tc.reason)
			if tc.status != 200 {
				require.Equal(t, "text/plain; charset=utf-8", rec.Header().Get("Content-Type"))
				require.NotRegexp(t, `[\x00-\x09\x0b-\x1f\x7f]`, rec.Body.String())
			}
		})
	}
	require.Zero(t, source.looks.Load()+source.families.Load()+source.taps.Load())
	require.Empty(t, w.mu.open)
}
