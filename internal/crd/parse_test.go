package crd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: string}}}
          status: {type: object, properties: {observedGeneration: {type: integer}}}
`

func TestParse(t *testing.T) {
	second := strings.ReplaceAll(widgets, "idget", "adget")
	got, err := Parse([]byte("# a comment\n---\n" + widgets + "\n---\n---\n" + second + "status: {}\n"))
	require.NoError(t, err)
	require.Len(t, got, 2)
	d := got[0]
	require.Equal(t, "widgets.example.com Widget widgets example.com", strings.Join([]string{d.Name, d.Kind, d.Plural, d.Group}, " "))
	require.False(t, d.ClusterScoped)
	require.True(t, d.Storage().Served && d.Storage().HasStatus)
	require.Nil(t, d.Version("v2"))
	require.NotContains(t, got[1].Object(), "status", "a status isn't its author's")
	require.NotEqual(t, d.Digest(), got[1].Digest())
	again, err := Parse([]byte(widgets))
	require.NoError(t, err)
	require.Equal(t, d.Digest(), again[0].Digest(), "comments don't matter")
	d.Object()["metadata"].(map[string]any)["labels"] = "x"
	require.NotContains(t, d.Object()["metadata"], "labels")
}

// The same definition comes in many forms.
func TestParse_Forms(t *testing.T) {
	plain, err := Parse([]byte(widgets))
	require.NoError(t, err)
	asJSON, err := json.MarshalIndent(plain[0].object, "", "\t")
	require.NoError(t, err)
	require.Contains(t, string(asJSON), "\t")
	for name, text := range map[string]string{
		"ByteOrderMark": "\ufeff" + widgets,
		"MarkAndStart":  "\ufeff---\n" + widgets,
		"MarkAndNone":   "\ufeff# a comment\n---\n" + widgets,
		"CRLF":          strings.ReplaceAll("---\n"+widgets+"---\n...\n", "\n", "\r\n"),
		"Directive":     "%YAML 1.1\n---\n" + widgets,
		"JSON":          string(asJSON),
		"JSONDocument":  "---\n" + string(asJSON) + "\n---\n",
		"Generated":     strings.Replace(widgets, "{name: ", "{creationTimestamp: null, name: ", 1) + "status: {acceptedNames: {kind: '', plural: ''}, conditions: null, storedVersions: null}\n",
	} {
		got, err := Parse([]byte(text))
		require.NoError(t, err, name)
		require.Len(t, got, 1, name)
		require.Equal(t, plain[0].Digest(), got[0].Digest(), name)
	}
}

// What others have generated and an API server accepts has no mistakes.
func TestParse_Accepted(t *testing.T) {
	found := 0
	for _, pattern := range []string{"../../examples/*/crd.yaml", "../../examples/*/crd/*.yaml", "../../examples/starter/deploy/*crd*.yaml", "../../test/conformance/testdata/crds.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			_, err = Parse(text)
			require.NoError(t, err, file)
			found++
		}
	}
	require.Greater(t, found, 5)
}

func TestParseFinds(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		old, new string // what is changed in widgets
		want     string
	}{
		"Empty":        {"a file that was forgotten", widgets, "# nothing\n---\n", "empty; a CustomResourceDefinition"},
		"NoYAML":       {"a tab", "spec:\n", "spec:\n\t- a\n", "not YAML"},
		"Text":         {"another file", widgets, "hello", "not an object"},
		"Twice":        {"the last would win", "  scope: Namespaced\n", "  scope: Namespaced\n  scope: Cluster\n", `key "scope" already set`},
		"AnotherKind":  {"a sample", "kind: CustomResourceDefinition", "kind: Widget", "apiextensions.k8s.io/v1/Widget widgets.example.com: not a CustomResourceDefinition"},
		"Beta":         {"of long ago", "k8s.io/v1\n", "k8s.io/v1beta1\n", "not a CustomResourceDefinition of apiextensions.k8s.io/v1"},
		"Name":         {"the API server refuses it", "name: widgets.example.com", "name: widget.example.com", `metadata.name: "widget.example.com" isn't "widgets.example.com"`},
		"NoGroup":      {"no group", "  group: example.com\n", "", "CustomResourceDefinition widgets.example.com: spec.group: missing"},
		"NoKind":       {"no kind", "kind: Widget, ", "", "spec.names.kind: missing"},
		"Scope":        {"a slip", "Namespaced", "Namespace", "spec.scope: Namespace is neither"},
		"Typo":         {"a slip", "    served:", "    serve: true\n    served:", "spec.versions[name=v1].serve: unknown field"},
		"NotServed":    {"it isn't said", "    served: true\n", "", "spec.versions[name=v1].served: missing"},
		"NoStorage":    {"nothing could be stored", "storage: true", "storage: false", "spec.versions: 0 have storage: true"},
		"NoVersions":   {"old layout", "  versions:\n", "  version:\n", "spec.versions: there are none"},
		"NoSchema":     {"demanded since v1", "      openAPIV3Schema:\n", "      openAPISchema:\n", "schema.openAPIV3Schema: missing"},
		"NoType":       {"not structural", "size: {type: string}", "size: {}", "openAPIV3Schema.properties[spec].properties[size].type: missing"},
		"WrongType":    {"Go's names", "type: string", "type: int", `"int" is none of`},
		"NoItems":      {"a list of what?", "type: string", "type: array", "properties[size].items: missing"},
		"RequiredHere": {"as in OpenAPI 2", "type: string", "type: string, required: true", "properties[size].required: not a list"},
		"Keyword":      {"a slip", "type: string", "type: string, minlength: 1", "properties[size].minlength: unknown in a schema"},
		"List":         {"as kubectl get prints it", widgets, "apiVersion: v1\nkind: List\nitems: [{kind: Pod}]\n", "v1/List: a list; write each of its items as a document"},
		"Exported":     {"as kubectl get prints it", "{name: widgets.example.com}", "{name: widgets.example.com, uid: a}", "metadata.uid: the API server sets it; take it out"},
		"Namespaced":   {"there is no such definition", "{name: widgets.example.com}", "{name: widgets.example.com, namespace: a}", "metadata.namespace: unknown field"},
		"Label":        {"the API server refuses it", "{name: widgets.example.com}", "{name: widgets.example.com, labels: {a: 1}}", "metadata.labels[a]: 1 isn't a text; put it in quotes"},
		"Labels":       {"the API server refuses it", "{name: widgets.example.com}", "{name: widgets.example.com, labels: [a]}", "metadata.labels: not an object"},
		"KeepsAll":     {"refused since v1", "  scope:", "  preserveUnknownFields: true\n  scope:", "spec.preserveUnknownFields: true; no API server accepts that"},
		"TwiceInJSON":  {"the last would win", widgets, `{"kind": "A", "kind": "B"}`, `key "kind" already set`},
		"NoJSON":       {"cut off", widgets, `{"kind": "A",`, "not YAML"},
		"Second":       {"the document is named", widgets, widgets + "---\nkind: Pod\n", "document 2: <nil>/Pod: not a"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, widgets, tc.old)
			_, err := Parse([]byte(strings.Replace(widgets, tc.old, tc.new, 1)))
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func TestStatusDoubt(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		old, new string
		want     string
	}{
		"Fine":       {"nothing is missing", "", "", ""},
		"NoStatus":   {"it couldn't be written", "    subresources: {status: {}}\n", "", "widgets.example.com: spec.versions[name=v1].subresources.status: missing"},
		"Generation": {"it would be dropped", "observedGeneration", "ready", "status.observedGeneration: missing"},
		"NoSchema":   {"all would be dropped", "status: {type: object", "state: {type: object", "status.observedGeneration: missing"},
		"Anything":   {"nothing is dropped", "{observedGeneration: {type: integer}}", "{}, x-kubernetes-preserve-unknown-fields: true", ""},
		"Map":        {"nothing is dropped", "properties: {observedGeneration: {type: integer}}", "additionalProperties: {type: integer}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, widgets, tc.old)
			got, err := Parse([]byte(strings.Replace(widgets, tc.old, tc.new, 1)))
			require.NoError(t, err)
			doubt := StatusDoubt(got[0], "v1")
			require.Equal(t, tc.want == "", doubt == "", doubt)
			require.Contains(t, doubt, tc.want, tc.reason)
			require.Empty(t, StatusDoubt(got[0], "v9"))
		})
	}
}
