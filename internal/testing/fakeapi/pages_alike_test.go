package fakeapi_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A list in pages is as it was when its first page was sent.
func pages(t *testing.T, c *caller, name string) {
	for i := range 3 {
		c.call(t, "POST", parents, asJSON, parentJSON(fmt.Sprint(name, i), `,"labels":{"p":"`+name+`"}`, ""))
	}
	of := parents + "?labelSelector=p%3D" + name
	first := c.call(t, "GET", of+"&limit=2", asJSON, "")
	require.Equal(t, http.StatusOK, first.Code)
	require.Len(t, first.Items, 2)
	require.NotEmpty(t, first.Meta.Continue)
	require.Zero(t, first.Meta.RemainingItemCount, "it isn't known under a selector")
	c.call(t, "DELETE", parents+"/"+name+"2", asJSON, "")
	second := c.call(t, "GET", of+"&limit=2&continue="+first.Meta.Continue, asJSON, "")
	require.Equal(t, http.StatusOK, second.Code)
	require.Len(t, second.Items, 1, "that it went since isn't seen")
	require.Empty(t, second.Meta.Continue)
	require.Equal(t, first.Meta.ResourceVersion, second.Meta.ResourceVersion)

	const configMaps = "/api/v1/namespaces/alike/configmaps"
	for i := range 2 {
		c.call(t, "POST", configMaps, asJSON, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s%d"}}`, name, i))
	}
	whole := c.call(t, "GET", configMaps, asJSON, "")
	page := c.call(t, "GET", configMaps+"?limit=1", asJSON, "")
	require.EqualValues(t, len(whole.Items)-1, page.Meta.RemainingItemCount)

	for what, query := range map[string]string{
		"no token":      "&continue=nonsense",
		"two positions": "&resourceVersion=" + first.Meta.ResourceVersion + "&continue=" + first.Meta.Continue,
		"no number":     "&limit=many",
	} {
		refused := c.call(t, "GET", of+query, asJSON, "")
		require.Equal(t, http.StatusBadRequest, refused.Code, what)
	}
}

// A deletion may name the state that it is for.
func preconditions(t *testing.T, c *caller, name string) {
	one := c.call(t, "POST", parents, asJSON, parentJSON(name, "", `,"spec":{"a":1}`))
	two := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"spec":{"a":2}}`)
	only := func(version string) string {
		return `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"` + one.Meta.UID + `","resourceVersion":"` + version + `"}}`
	}
	late := c.call(t, "DELETE", parents+"/"+name, asJSON, only(one.Meta.ResourceVersion))
	require.Equal(t, http.StatusConflict, late.Code)
	require.Equal(t, "Conflict", late.Reason)
	require.Equal(t, http.StatusOK, c.call(t, "DELETE", parents+"/"+name, asJSON, only(two.Meta.ResourceVersion)).Code)
}
