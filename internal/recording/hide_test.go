package recording

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// secretAs returns a Secret with a value in each place where one may be.
func secretAs(value string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
		"metadata": map[string]any{
			"name": "key", "labels": map[string]any{"app": "told"},
			"annotations": map[string]any{
				"roperator.com/applied": "v2:op:1:" + value + ":data{k}", lastApplied: value, "example.com/note": "told",
				"kapp.k14s.io/original": ` {"data":{"k":"` + value + `"}}`, "odd": map[string]any{"k": value},
			},
			"stringData": map[string]any{"at the wrong depth": value},
		},
		"data":       map[string]any{"encoded": base64.StdEncoding.EncodeToString([]byte(value)), "plain": value, "number": 4711},
		"stringData": map[string]any{"k": value, "list": []any{value}},
		"stringdata": map[string]any{"a typing error": map[string]any{"k": value}},
		"odd":        value,
		"nothing":    nil,
		"after":      value, // not what handler.After said
	}
}

// TestHidden: every value of a Secret is hidden, whatever it looks like.
func TestHidden(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"s3cret", "sha256:s3cret", "sha256:0123456789abcdef0123456789abcdef", "hidden:s3cret", "hidden:1", "hidden", "(hidden)", "(not shown)", "", "czNjcmV0",
	} {
		for name, hide := range map[string]Hider{"key": ByKey("k"), "alike": Alike} {
			t.Run(name+"/"+value, func(t *testing.T) {
				object := secretAs(value)
				before, err := json.Marshal(object)
				require.NoError(t, err)
				out := Hidden(object, hide)
				if strings.Contains(value, "s3cret") || strings.Contains(value, "0123") {
					text := fmt.Sprint(out)
					require.NotContains(t, text, value)
					require.NotContains(t, text, base64.StdEncoding.EncodeToString([]byte(value)))
				}
				data, ok := out["data"].(map[string]any)
				require.True(t, ok)
				raw, err := base64.StdEncoding.DecodeString(data["encoded"].(string))
				require.NoError(t, err, "a handler can read it")
				require.Equal(t, hide(value), string(raw), "it is hidden, not kept for what it looks like")
				require.NotEqual(t, 4711, data["number"])
				after, err := json.Marshal(object)
				require.NoError(t, err)
				require.JSONEq(t, string(before), string(after), "the object itself stays")
				metadata := out["metadata"].(map[string]any)
				require.Equal(t, "told", metadata["annotations"].(map[string]any)["example.com/note"])
				require.Equal(t, map[string]any{"app": "told"}, metadata["labels"])
				require.Equal(t, []any{"v1", "Secret", "Opaque", true, "key"}, []any{out["apiVersion"], out["kind"], out["type"], out["immutable"], metadata["name"]})
			})
		}
	}
}

// TestHidden_Forms: where else a Secret's values may be, and what only looks like one.
func TestHidden_Forms(t *testing.T) {
	t.Parallel()
	data := map[string]any{"k": "czNjcmV0", "plain": "s3cret"}
	secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "key"}, "data": data}
	page := func(fields map[string]any) map[string]any {
		fields["apiVersion"], fields["kind"] = "v1", "ConfigMap"
		return fields
	}
	for name, tc := range map[string]struct {
		reason string
		object map[string]any
		told   []string // by what is returned
		all    bool     // nothing is hidden
	}{
		"no map":         {reason: "it can't be a Secret, and may hold a value", object: map[string]any{"apiVersion": "v1", "kind": "Secret", "data": "s3cret", "metadata": "s3cret", "type": []any{"s3cret"}, "immutable": "s3cret"}},
		"annotations":    {reason: "it can't be a Secret", object: map[string]any{"kind": "Secret", "metadata": map[string]any{"name": "key", "annotations": []any{"s3cret"}}}, told: []string{"key"}},
		"no kind":        {reason: "a typed Secret that isn't in client-go's scheme", object: map[string]any{"data": data, "metadata": map[string]any{"name": "key"}}, told: []string{"key"}},
		"odd kind":       {reason: "a kind that is no text", object: map[string]any{"kind": 1, "data": data}},
		"spelling":       {reason: "the engine refuses it later", object: map[string]any{"kind": "secret", "data": data}},
		"list":           {reason: "no operator has children of this kind, but a handler may return one", object: map[string]any{"kind": "SecretList", "items": []any{map[string]any{"data": data}}}},
		"mixed list":     {reason: "items say their kind", object: map[string]any{"kind": "List", "items": []any{secret, page(map[string]any{"data": map[string]any{"k": "page"}})}}, told: []string{"key", "page"}},
		"list in a list": {reason: "however deep", object: map[string]any{"kind": "List", "items": []any{map[string]any{"kind": "SecretList", "items": []any{map[string]any{"data": data}}}}}},
		"manifest":       {reason: "a whole Secret in a custom resource", object: map[string]any{"kind": "Work", "spec": map[string]any{"manifests": []any{secret}}}, told: []string{"key"}},
		"string data":    {reason: "it has no data", object: map[string]any{"kind": "Work", "spec": map[string]any{"kind": "Secret", "stringData": map[string]any{"k": "s3cret"}}}},
		"last applied":   {reason: "it repeats the object", object: page(map[string]any{"metadata": map[string]any{"annotations": map[string]any{lastApplied: "s3cret", "a": "told"}}}), told: []string{"told"}},
		"deep":           {reason: "of an object inside", object: map[string]any{"kind": "Work", "spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{lastApplied: "s3cret"}}}}}},
		"page":           {reason: "only Secrets are secret", object: page(map[string]any{"data": map[string]any{"k": "v"}, "metadata": map[string]any{"annotations": map[string]any{"roperator.com/applied": "mark"}}}), all: true},
		"reference":      {reason: "it names a Secret", object: map[string]any{"kind": "Site", "spec": map[string]any{"from": map[string]any{"kind": "Secret", "name": "key", "key": "k"}}}, all: true},
		"nothings":       {reason: "they stay what they are", object: map[string]any{"kind": "Site", "spec": map[string]any(nil), "list": []any(nil), "nil": nil, "n": int64(1)}, all: true},
		"none":           {reason: "there is no object", all: true},
	} {
		t.Run(name, func(t *testing.T) {
			out := Hidden(tc.object, ByKey("k"))
			if tc.all {
				require.Equal(t, tc.object, out, tc.reason)
				return
			}
			text := fmt.Sprint(out)
			require.Contains(t, text, "hidden:", tc.reason)
			for _, value := range []string{"s3cret", "czNjcmV0"} {
				require.NotContains(t, text, value, tc.reason)
			}
			for _, told := range tc.told {
				require.Contains(t, text, told, tc.reason)
			}
		})
	}
}

// TestHidden_OddTypes: a field is told only if it is what the API server has there.
func TestHidden_OddTypes(t *testing.T) {
	t.Parallel()
	out := Hidden(map[string]any{"kind": "Secret", "data": true, "type": false, "immutable": "s3cret", "apiVersion": int64(4711)}, Alike)
	require.Equal(t, map[string]any{"kind": "Secret", "data": "hidden", "type": "hidden", "immutable": "hidden", "apiVersion": "hidden"}, out)
}

// TestHiddenChild: what the handler said beside a Secret stays, and can be compared.
func TestHiddenChild(t *testing.T) {
	t.Parallel()
	child := map[string]any{"kind": "Secret", "data": map[string]any{"k": "s3cret"}, "keep": true, "when": false, "leave": []any{"data.k"}, "after": []any{"Pod web"}}
	require.Equal(t, map[string]any{
		"kind": "Secret", "data": map[string]any{"k": "hidden"}, "keep": true, "when": false, "leave": []any{"data.k"}, "after": []any{"Pod web"},
	}, HiddenChild(child, Alike))
	require.Nil(t, HiddenChild(nil, Alike))
}
