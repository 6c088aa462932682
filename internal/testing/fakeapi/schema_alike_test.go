package fakeapi_test

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
)

const shapes = "/apis/sim.example.com/v1/namespaces/alike/shapes"

// shapeKind is the kind of testdata/shapes.yaml.
func shapeKind(t *testing.T) fakeapi.Kind {
	t.Helper()
	text, err := os.ReadFile("testdata/shapes.yaml")
	require.NoError(t, err)
	definitions, err := crd.Parse(text)
	require.NoError(t, err)
	k := fakeapi.Custom(resource.Type{APIVersion: "sim.example.com/v1", Kind: "Shape"}, "shapes")
	k.Schema, err = fakeapi.NewSchema(definitions[0].Versions[0].Schema)
	require.NoError(t, err)
	return k
}

func shapeJSON(name, rest string) string {
	return strings.Replace(parentJSON(name, "", rest), `"Parent"`, `"Shape"`, 1)
}

// schemas holds that objects are pruned, defaulted and validated alike.
func schemas(t *testing.T, c *caller, name string) {
	for at, tc := range map[string]struct {
		reason, rest string
		code         int
		spec         any
	}{
		"Defaults": {
			"what is absent has its default", `,"spec":{"color":"red","parts":[{},{"kind":"top","weight":1.5}],"table":{"a":{},"b":{"lit":false}}}`, 201,
			map[string]any{
				"color": "red", "corners": 4.0, "parts": []any{map[string]any{"kind": "edge"}, map[string]any{"kind": "top", "weight": 1.5}},
				"table": map[string]any{"a": map[string]any{"lit": true}, "b": map[string]any{"lit": false}},
			},
		},
		"Unknown": {
			"unknown fields go, but where they may stay", `,"spec":{"color":"red","x":1,"free":{"y":{"z":1}},"parts":[{"w":1}]},"other":1`, 201,
			map[string]any{"color": "red", "corners": 4.0, "free": map[string]any{"y": map[string]any{"z": 1.0}}, "parts": []any{map[string]any{"kind": "edge"}}},
		},
		"Nulls": {
			"a null is kept only where there may be one", `,"spec":{"color":"red","corners":null,"label":null,"name":null}`, 201,
			map[string]any{"color": "red", "corners": 4.0, "label": nil},
		},
		"IntOrString":  {"either", `,"spec":{"color":"red","size":"10%"}`, 201, map[string]any{"color": "red", "corners": 4.0, "size": "10%"}},
		"Int":          {"either", `,"spec":{"color":"red","size":10}`, 201, map[string]any{"color": "red", "corners": 4.0, "size": 10.0}},
		"Enum":         {"green isn't known", `,"spec":{"color":"green"}`, 422, nil},
		"Required":     {"a color is required", `,"spec":{}`, 422, nil},
		"RequiredSpec": {"a spec is", ``, 422, nil},
		"Type":         {"a text is no number", `,"spec":{"color":"red","corners":"4"}`, 422, nil},
		"Minimum":      {"there are no fewer than none", `,"spec":{"color":"red","corners":-1}`, 422, nil},
		"Pattern":      {"no capitals", `,"spec":{"color":"red","name":"A"}`, 422, nil},
		"Length":       {"too long", `,"spec":{"color":"red","name":"abcdef"}`, 422, nil},
	} {
		made := c.call(t, "POST", shapes, asJSON, shapeJSON(name+"-"+strings.ToLower(at), tc.rest))
		require.Equal(t, tc.code, made.Code, "%s: %s", at, tc.reason)
		if tc.code == http.StatusCreated {
			require.Equal(t, tc.spec, made.Spec, "%s: %s", at, tc.reason)
			continue
		}
		require.Equal(t, "Invalid", made.Reason, at)
	}
}

// changesOfShapes holds that updates, patches and statuses are looked at, too.
func changesOfShapes(t *testing.T, c *caller, name string) {
	made := c.call(t, "POST", shapes, asJSON, shapeJSON(name, `,"spec":{"color":"red"},"status":{"count":3}`))
	require.Equal(t, http.StatusCreated, made.Code)
	require.Equal(t, map[string]any{"phase": "New"}, made.Status, "a status may have a default")
	at := shapes + "/" + name
	require.Equal(t, 422, c.call(t, "PATCH", at, asMerge, `{"spec":{"color":"green"}}`).Code)
	require.Equal(t, 422, c.call(t, "PATCH", at+"/status", asMerge, `{"status":{"count":"x"}}`).Code)
	told := c.call(t, "PATCH", at+"/status", asMerge, `{"status":{"count":1,"phase":null,"x":1}}`)
	require.Equal(t, map[string]any{"phase": "New", "count": 1.0}, told.Status)
	same := c.call(t, "PATCH", at, asMerge, `{"spec":{"corners":null,"x":2}}`)
	require.Equal(t, told.Meta.ResourceVersion, same.Meta.ResourceVersion, "what is filled in and dropped is no change")
	require.EqualValues(t, 1, same.Meta.Generation)

	named := c.call(t, "POST", shapes, asJSON, strings.Replace(shapeJSON("x", `,"spec":{"color":"red"}`), `"name":"x"`, `"generateName":"gen-"`, 1))
	require.Equal(t, http.StatusCreated, named.Code)
	require.Regexp(t, `^gen-[0-9a-z]{5}$`, named.Meta.Name)
}

// fieldsOfShapes holds that unknown fields of custom types are told of, or refused, as a request asks.
func fieldsOfShapes(t *testing.T, c *caller, name string) {
	made := c.call(t, "POST", shapes, asJSON, shapeJSON(name, `,"spec":{"color":"red"}`))
	require.Equal(t, http.StatusCreated, made.Code)
	version := quoted("resourceVersion", made.Meta.ResourceVersion)
	update := func(rest string) string {
		return strings.Replace(shapeJSON(name, rest), `"name":"`+name+`"`, `"name":"`+name+`"`+version, 1)
	}
	for at, tc := range map[string]struct{ reason, method, path, contentType, body, complaint string }{
		"Create": {
			"of what is created", "POST", "", asJSON, shapeJSON(name+"-new", `,"spec":{"color":"red","x":1,"parts":[{"y":1}]}`),
			`unknown field "spec.parts[0].y", unknown field "spec.x"`,
		},
		"Top":       {"beside the spec", "POST", "", asJSON, shapeJSON(name+"-new", `,"spec":{"color":"red"},"specs":{}`), `unknown field "specs"`},
		"Duplicate": {"a field that is there twice", "POST", "", asJSON, shapeJSON(name+"-new", `,"spec":{"color":"red","color":"blue"}`), `duplicate field "spec.color"`},
		"Update":    {"of what is changed", "PUT", "/" + name, asJSON, update(`,"spec":{"color":"red","x":1}`), `unknown field "spec.x"`},
		"Patch":     {"by a patch", "PATCH", "/" + name, asMerge, `{"spec":{"x":1}}`, `unknown field "spec.x"`},
		"JSONPatch": {"by another patch", "PATCH", "/" + name, asPatch, `[{"op":"add","path":"/spec/x","value":1}]`, `unknown field "spec.x"`},
		"Status":    {"of a status", "PATCH", "/" + name + "/status", asMerge, `{"status":{"x":1}}`, `unknown field "status.x"`},
		"Known":     {"what is known is fine", "PATCH", "/" + name, asMerge, `{"spec":{"corners":7}}`, ""},
	} {
		for _, level := range []string{"", "Ignore", "Warn", "Strict"} {
			is := c.call(t, tc.method, shapes+tc.path+"?dryRun=All&fieldValidation="+level, tc.contentType, tc.body)
			switch {
			case tc.complaint == "" || level == "Ignore":
				require.Less(t, is.Code, 300, "%s %s: %s: %s", at, level, tc.reason, is.Message)
				require.Empty(t, is.Warnings, "%s %s", at, level)
			case level == "Strict":
				code, reason := http.StatusBadRequest, "BadRequest"
				if tc.method == "PATCH" {
					code, reason = http.StatusUnprocessableEntity, "Invalid"
				}
				require.Equal(t, code, is.Code, "%s: %s: %s", at, tc.reason, is.Message)
				require.Equal(t, reason, is.Reason, at)
				require.Contains(t, is.Message, "strict decoding error: "+tc.complaint, "%s", at)
			default:
				require.Less(t, is.Code, 300, "%s %s: %s: %s", at, level, tc.reason, is.Message)
				var want []string
				for one := range strings.SplitSeq(tc.complaint, ", ") {
					want = append(want, "299 - "+strconv.Quote(one))
				}
				require.Equal(t, want, is.Warnings, "%s %s", at, level)
			}
		}
	}
}
