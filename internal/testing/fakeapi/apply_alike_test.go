package fakeapi_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource/k8s"
)

const (
	asApply     = "application/apply-patch+yaml"
	deployments = "/apis/apps/v1/namespaces/alike/deployments"
)

// appliedKinds are the kinds that are applied.
func appliedKinds() []fakeapi.Kind {
	return []fakeapi.Kind{{Type: k8s.Deployment, Plural: "deployments", Status: true, Generation: true, Applies: true}}
}

// deploymentJSON returns a Deployment with these containers.
func deploymentJSON(name, meta, containers string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + name + `"` + meta + `},"spec":{` +
		`"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[` + containers + `]}}}}`
}

// by returns the path of an object, for a field manager.
func by(name, manager, more string) string {
	return deployments + "/" + name + "?fieldManager=" + url.QueryEscape(manager) + more
}

// containersOf returns the images of a Deployment's containers by name.
func containersOf(t *testing.T, a answer) map[string]any {
	t.Helper()
	out := map[string]any{}
	spec, _ := a.Spec.(map[string]any)
	template, _ := spec["template"].(map[string]any)
	pod, _ := template["spec"].(map[string]any)
	list, _ := pod["containers"].([]any)
	for _, one := range list {
		container, _ := one.(map[string]any)
		name, _ := container["name"].(string)
		out[name] = container["image"]
	}
	return out
}

func managers(a answer) (out []string) {
	for _, entry := range a.Meta.ManagedFields {
		out = append(out, entry.Manager+" "+entry.Operation)
	}
	return out
}

func applies(t *testing.T, c *caller, name string) {
	made := c.call(t, "POST", deployments+"?fieldManager=op", asJSON, deploymentJSON(name, "", `{"name":"app","image":"app:1"}`))
	require.Equal(t, http.StatusCreated, made.Code)
	require.Equal(t, []string{"op Update"}, managers(made), "a creation is noted")

	const forced = "&force=true"
	first := c.call(t, "PATCH", by(name, "op", forced), asApply, deploymentJSON(name, `,"labels":{"one":"1","two":"2"}`, `{"name":"app","image":"app:1"}`))
	require.Equal(t, http.StatusOK, first.Code)
	require.Equal(t, map[string]string{"one": "1", "two": "2"}, first.Meta.Labels)
	require.ElementsMatch(t, []string{"op Update", "op Apply"}, managers(first), "what was created and what was applied are two entries")

	same := c.call(t, "PATCH", by(name, "op", forced), asApply, deploymentJSON(name, `,"labels":{"one":"1","two":"2"}`, `{"name":"app","image":"app:1"}`))
	require.Equal(t, first.Meta.ResourceVersion, same.Meta.ResourceVersion, "the same again is no write")

	beside := c.call(t, "PATCH", by(name, "mesh", ""), asApply, deploymentJSON(name, "", `{"name":"proxy","image":"proxy:1"}`))
	require.Equal(t, http.StatusOK, beside.Code, "others may add items to a keyed list")
	require.Equal(t, map[string]any{"app": "app:1", "proxy": "proxy:1"}, containersOf(t, beside))

	less := c.call(t, "PATCH", by(name, "op", forced), asApply, deploymentJSON(name, `,"labels":{"one":"1"}`, `{"name":"app","image":"app:2"}`))
	require.Equal(t, map[string]string{"one": "1"}, less.Meta.Labels, "what isn't applied any more goes")
	require.Equal(t, map[string]any{"app": "app:2", "proxy": "proxy:1"}, containersOf(t, less), "and what is others' stays")

	refused := c.call(t, "PATCH", by(name, "mesh", ""), asApply, deploymentJSON(name, "", `{"name":"app","image":"app:3"}`))
	require.Equal(t, http.StatusConflict, refused.Code, "a field of others is theirs")
	require.Equal(t, "Conflict", refused.Reason)
	tried := c.call(t, "PATCH", by(name, "mesh", forced+"&dryRun=All"), asApply, deploymentJSON(name, "", `{"name":"app","image":"app:3"}`))
	require.Equal(t, "app:3", containersOf(t, tried)["app"], "unless it is forced")
	live := c.call(t, "GET", deployments+"/"+name, asJSON, "")
	require.Equal(t, less.Meta.ResourceVersion, live.Meta.ResourceVersion, "a dry run changes nothing")
}

func appliesTo(t *testing.T, c *caller, name string) {
	const body, uid = `{"name":"app","image":"app:1"}`, `,"uid":"11111111-1111-1111-1111-111111111111"`
	require.Equal(t, http.StatusConflict, c.call(t, "PATCH", by(name, "op", "&force=true"), asApply, deploymentJSON(name, uid, body)).Code, "there is no such object")
	require.Equal(t, http.StatusCreated, c.call(t, "POST", deployments+"?fieldManager=op", asJSON, deploymentJSON(name, "", body)).Code)
	require.Equal(t, http.StatusUnprocessableEntity, c.call(t, "PATCH", by(name, "op", "&force=true"), asApply, deploymentJSON(name, uid, body)).Code, "it is another one")
	require.GreaterOrEqual(t, c.call(t, "PATCH", deployments+"/"+name+"?force=true", asApply, deploymentJSON(name, "", body)).Code, 400, "somebody must apply it")
	edited := c.call(t, "PATCH", by(name, "kubectl", ""), asMerge, `{"metadata":{"labels":{"by":"hand"}}}`)
	require.ElementsMatch(t, []string{"op Update", "kubectl Update"}, managers(edited), "a patch is noted")
}
