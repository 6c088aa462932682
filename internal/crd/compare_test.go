package crd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// of returns a definition whose versions have these schemas of spec. The last is stored.
func of(t *testing.T, specs ...string) *Definition {
	t.Helper()
	var text strings.Builder
	text.WriteString("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com}, spec: {group: example.com, scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: [")
	for i, spec := range specs {
		name := "v" + string(rune('1'+i))
		if at, rest, ok := strings.Cut(spec, "="); ok && len(at) < 4 {
			name, spec = at, rest
		}
		storage := "false"
		if i == len(specs)-1 {
			storage = "true"
		}
		text.WriteString("{name: " + name + ", served: true, storage: " + storage + ", schema: {openAPIV3Schema: {type: object, properties: {spec: " + spec + "}}}},\n")
	}
	text.WriteString("]}}")
	got, err := Parse([]byte(text.String()))
	require.NoError(t, err)
	return got[0]
}

func TestCompare(t *testing.T) {
	for name, tc := range map[string]struct {
		reason              string
		was, is             string // the schema of spec.f
		narrowed, tightened string // what is told; empty: nothing
	}{
		"Same":            {"nothing changes", "type: string", "type: string", "", ""},
		"Described":       {"a description is no rule", "type: string", "type: string, description: x", "", ""},
		"Looser":          {"more is good", "type: string, maxLength: 3, enum: [a]", "type: string, maxLength: 4, enum: [a, b]", "", ""},
		"Type":            {"stored values have the wrong type", "type: string", "type: integer", "version v1: spec.f.type: was string, is integer", ""},
		"IntegerToNumber": {"every integer is a number", "type: integer", "type: number", "", ""},
		"IntOrString":     {"stored strings are wrong", "x-kubernetes-int-or-string: true", "type: integer", "spec.f.type: was integer or string, is integer", ""},
		"Nullable":        {"stored nulls are wrong", "type: string, nullable: true", "type: string", "spec.f.nullable: not true any more", ""},
		"Removed":         {"values would be dropped", "type: object, properties: {a: {type: string}}", "type: object", "spec.f.a: removed", ""},
		"RemovedInList":   {"values would be dropped", "type: array, items: {type: object, properties: {a: {type: string}}}", "type: array, items: {type: object}", "spec.f[*].a: removed", ""},
		"Opened":          {"nothing is dropped", "type: object, properties: {a: {type: string}}", "type: object, x-kubernetes-preserve-unknown-fields: true", "", ""},
		"ToMap":           {"nothing is dropped", "type: object, properties: {a: {type: string}}", "type: object, additionalProperties: {type: string}", "", ""},
		"ToMapOfOthers":   {"values have the wrong type", "type: object, properties: {a: {type: string}}", "type: object, additionalProperties: {type: integer}", "spec.f.a.type", ""},
		"NoMap":           {"values would be dropped", "type: object, additionalProperties: {type: string}", "type: object", "spec.f.additionalProperties: removed", ""},
		"Closed":          {"values would be dropped", "type: object, x-kubernetes-preserve-unknown-fields: true", "type: object", "x-kubernetes-preserve-unknown-fields: not true any more", ""},
		"Required":        {"unchanged objects lack it", "type: object, properties: {a: {type: string}}", "type: object, required: [a], properties: {a: {type: string}}", "spec.f.a: required now", ""},
		"RequiredDefault": {"it is filled in", "type: object, properties: {a: {type: string}}", "type: object, required: [a], properties: {a: {type: string, default: x}}", "", ""},
		"ListType":        {"stored lists may have doubles", "type: array, items: {type: string}", "type: array, x-kubernetes-list-type: set, items: {type: string}", "x-kubernetes-list-type: was not set, is \"set\"", ""},
		"AnyOf":           {"nothing is let through", "type: string", "type: string, anyOf: [{pattern: a}]", "spec.f.anyOf: added", ""},
		"Enum":            {"unchanged values stay", "type: string, enum: [a, b]", "type: string, enum: [a]", "", "spec.f.enum: without \"b\" now"},
		"EnumAdded":       {"unchanged values stay", "type: string", "type: string, enum: [a]", "", "spec.f.enum: added"},
		"Maximum":         {"unchanged values stay", "type: integer, maximum: 9", "type: integer, maximum: 8", "", "spec.f.maximum: was 9, is 8"},
		"MinimumAdded":    {"unchanged values stay", "type: integer", "type: integer, minimum: 0", "", "spec.f.minimum: was not set, is 0"},
		"Exclusive":       {"unchanged values stay", "type: integer, minimum: 0", "type: integer, minimum: 0, exclusiveMinimum: true", "", "exclusiveMinimum: true now"},
		"Pattern":         {"unchanged values stay", "type: string, pattern: a", "type: string, pattern: b", "", `spec.f.pattern: was "a", is "b"`},
		"Rule":            {"unchanged values stay", "type: string", "type: string, x-kubernetes-validations: [{rule: self != ''}]", "", `the rule "self != ''" is new`},
	} {
		t.Run(name, func(t *testing.T) {
			schema := func(f string) string { return "{type: object, properties: {f: {" + f + "}}}" }
			got := Compare(of(t, schema(tc.was)), of(t, schema(tc.is)), []string{"v1"})
			require.Empty(t, got.Stored)
			for want, found := range map[string][]string{tc.narrowed: got.Narrowed, tc.tightened: got.Tightened} {
				if want == "" {
					continue
				}
				require.Len(t, found, 1, tc.reason)
				require.Contains(t, found[0], want, tc.reason)
			}
			require.Equal(t, [2]bool{tc.narrowed == "", tc.tightened == ""}, [2]bool{len(got.Narrowed) == 0, len(got.Tightened) == 0}, "%s: %v", tc.reason, got)
		})
	}
}

func TestCompare_Versions(t *testing.T) {
	const sized, empty = "{type: object, properties: {size: {type: string}}}", "{type: object}"
	for name, tc := range map[string]struct {
		reason   string
		was, is  *Definition
		stored   []string
		lacks    string // a version that may be stored
		narrowed string
	}{
		"Added":      {"nobody loses anything", of(t, sized), of(t, sized, sized), []string{"v1"}, "", ""},
		"Dropped":    {"the road's end", of(t, sized, sized), of(t, "v2="+sized), []string{"v2"}, "", ""},
		"Stored":     {"objects couldn't be read", of(t, sized, sized), of(t, "v2="+sized), []string{"v1", "v2"}, "v1", ""},
		"RolledBack": {"an older build without history", of(t, sized, sized), of(t, sized), []string{"v1"}, "", "version v2: removed, and newer"},
		"Lost":       {"conversion None drops it", of(t, sized), of(t, sized, empty), []string{"v1"}, "", "version v2, in which objects are to be stored instead of v1: spec.size: removed"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Compare(tc.was, tc.is, tc.stored)
			require.Equal(t, tc.lacks, strings.Join(got.Stored, ","), tc.reason)
			require.Equal(t, tc.narrowed == "", len(got.Narrowed) == 0, "%s: %v", tc.reason, got)
			require.Contains(t, strings.Join(got.Narrowed, ";"), tc.narrowed)
		})
	}
}

func TestCompare_Whole(t *testing.T) {
	changed := func(change func(spec map[string]any)) *Definition {
		d := of(t, "{type: object}")
		spec := mapOf(d.object["spec"])
		change(spec)
		return Of(d.object)
	}
	was := changed(func(map[string]any) {})
	legacy := changed(func(spec map[string]any) { spec["preserveUnknownFields"] = true })
	closed := changed(func(spec map[string]any) { spec["preserveUnknownFields"] = false })
	for name, tc := range map[string]struct {
		reason          string
		was, is         *Definition
		fixed, narrowed string
	}{
		"Same":   {"nothing changes", was, was, "", ""},
		"Scope":  {"where would the objects be?", was, changed(func(spec map[string]any) { spec["scope"] = "Cluster" }), "spec.scope: was Namespaced, is Cluster", ""},
		"Kind":   {"objects have the old one", was, changed(func(spec map[string]any) { mapOf(spec["names"])["kind"] = "Gadget" }), "spec.names.kind: was Widget, is Gadget", ""},
		"Closed": {"fields without a schema go", legacy, closed, "", "spec.preserveUnknownFields: not true any more"},
		"Silent": {"it is left as it is", legacy, was, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Compare(tc.was, tc.is, []string{"v1"})
			require.Equal(t, tc.fixed, strings.Join(got.Fixed, ";"), tc.reason)
			require.Equal(t, tc.narrowed == "", len(got.Narrowed) == 0, tc.reason)
			require.Contains(t, strings.Join(got.Narrowed, ";"), tc.narrowed, tc.reason)
		})
	}
	require.False(t, Matches(legacy, closed))
	require.True(t, Matches(legacy, was))
}

func TestOlder(t *testing.T) {
	d := of(t, "v2={type: object}", "v3={type: object}")
	require.True(t, Older(d, []string{"v4", "v5"}))
	require.False(t, Older(d, []string{"v1"}), "it has left an old one behind")
	require.False(t, Older(d, []string{"v1", "v4"}), "each must be newer")
}

func TestMatches(t *testing.T) {
	const spec = "{type: object, properties: {default: {type: boolean, default: false}}}"
	live := of(t, spec)
	for name, tc := range map[string]struct {
		reason string
		change func(wanted map[string]any)
		want   bool
	}{
		"Same":     {"nothing differs", func(map[string]any) {}, true},
		"Empties":  {"an API server leaves them out", func(o map[string]any) { o["spec"].(map[string]any)["conversion"] = map[string]any{"webhook": nil} }, true},
		"Label":    {"it is missing", func(o map[string]any) { o["metadata"].(map[string]any)["labels"] = map[string]any{"a": ""} }, false},
		"Versions": {"another schema", func(o map[string]any) { o["spec"].(map[string]any)["versions"] = []any{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := of(t, spec)
			tc.change(wanted.object)
			require.Equal(t, tc.want, Matches(live, wanted), tc.reason)
		})
	}
	require.False(t, Matches(live, of(t, strings.Replace(spec, "default: false", "default: true", 1))))
	require.False(t, Matches(live, of(t, strings.Replace(spec, ", default: false", "", 1))), "a default of false is a default")
}
