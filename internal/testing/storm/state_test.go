package storm

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// stateIn returns a state that is written in YAML.
func stateIn(t *testing.T, text string) state {
	t.Helper()
	out := state{}
	for name, object := range sample.YAML(t, text) {
		out[name] = object.(map[string]any)
	}
	return out
}

func TestDifferences(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, is, ought string
		want              []string
	}{
		"Same":       {"nothing is told", `Site ns/a: {spec: {k: 1}}`, `Site ns/a: {spec: {k: 1}}`, nil},
		"Missing":    {"the operator hasn't made it", `{}`, `Site ns/a: {spec: {k: 1}}`, []string{"Site ns/a is missing, and without faults it is there"}},
		"Additional": {"the operator hasn't deleted it", `Site ns/a: {spec: {k: 1}}`, `{}`, []string{"Site ns/a is there, and without faults it isn't"}},
		"Field":      {"the path is told", `Site ns/a: {spec: {k: {x: 1}}}`, `Site ns/a: {spec: {k: {x: 2}}}`, []string{"Site ns/a: spec.k.x is 1, and without faults 2"}},
		"NoField":    {"a field that isn't there", `Site ns/a: {spec: {}}`, `Site ns/a: {spec: {k: a}}`, []string{`Site ns/a: spec.k is absent, and without faults "a"`}},
		"MoreField":  {"a field too many", `Site ns/a: {spec: {k: a}}`, `Site ns/a: {spec: {}}`, []string{`Site ns/a: spec.k is "a", and without faults absent`}},
		"Null":       {"null says nothing", `Site ns/a: {spec: {k: null}}`, `Site ns/a: {spec: {}}`, nil},
		"Item":       {"the item is told", `Site ns/a: {spec: {l: [a, {b: 1}]}}`, `Site ns/a: {spec: {l: [a, {b: 2}]}}`, []string{"Site ns/a: spec.l[1].b is 1, and without faults 2"}},
		"Length":     {"lists of two lengths are told whole", `Site ns/a: {l: [a]}`, `Site ns/a: {l: [a, b]}`, []string{`Site ns/a: l is ["a"], and without faults ["a","b"]`}},
		"Kinds":      {"a list isn't an object", `Site ns/a: {l: [a]}`, `Site ns/a: {l: {a: b}}`, []string{`Site ns/a: l is ["a"], and without faults {"a":"b"}`}},
		"Several": {
			"by name and field", "{Site ns/b: {x: 1, a: 1}, Site ns/c: {x: 1}}", "{Site ns/a: {x: 1}, Site ns/b: {x: 2, a: 2}}",
			[]string{
				"Site ns/a is missing, and without faults it is there", "Site ns/b: a is 1, and without faults 2", "Site ns/b: x is 1, and without faults 2",
				"Site ns/c is there, and without faults it isn't",
			},
		},
		"Secret":     {"its values are nobody's business", `Secret ns/a: {data: {p: eA==}}`, `Secret ns/a: {data: {p: eQ==}}`, []string{`Secret ns/a: data.p is "(hidden)", and without faults "(hidden)"`}},
		"SecretNone": {"that one isn't there is told", `Secret ns/a: {data: {}}`, `Secret ns/a: {data: {p: eQ==}}`, []string{`Secret ns/a: data.p is absent, and without faults "(hidden)"`}},
		"SecretMeta": {"its labels are no secret", `Secret ns/a: {metadata: {labels: {a: x}}}`, `Secret ns/a: {metadata: {labels: {a: z}}}`, []string{`Secret ns/a: metadata.labels.a is "x", and without faults "z"`}},
		"NoSecret":   {"a kind may begin with the word", `SecretStore ns/a: {data: {p: x}}`, `SecretStore ns/a: {data: {p: z}}`, []string{`SecretStore ns/a: data.p is "x", and without faults "z"`}},
		"Note": {
			"it is told if it is all", `Site ns/a: {metadata: {annotations: {roperator.com/applied: x}}}`, `Site ns/a: {metadata: {annotations: {roperator.com/applied: z}}}`,
			[]string{`Site ns/a: metadata.annotations.roperator.com/applied is "x", and without faults "z"`},
		},
		"NoteAndMore": {
			"it follows from the rest", `Site ns/a: {metadata: {annotations: {roperator.com/applied: x}}, spec: 1}`, `Site ns/a: {metadata: {annotations: {roperator.com/applied: z}}, spec: 2}`,
			[]string{"Site ns/a: spec is 1, and without faults 2"},
		},
		"NoteOfAnother": {
			"only the rest of its own object stands for it", `{Site ns/a: {metadata: {annotations: {d/applied: x}}}, Site ns/b: {x: 1}}`, `{Site ns/a: {metadata: {annotations: {d/applied: z}}}, Site ns/b: {x: 2}}`,
			[]string{`Site ns/a: metadata.annotations.d/applied is "x", and without faults "z"`, "Site ns/b: x is 1, and without faults 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, differences(stateIn(t, tc.is), stateIn(t, tc.ought)), tc.reason)
		})
	}
}

func TestDifferencesAreFew(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		n, told int
		last    string
	}{
		"AllTold": {"as many as are told", maxDifferences, maxDifferences, "Site ns/8 is missing, and without faults it is there"},
		"More":    {"how many more there are is told", maxDifferences + 2, maxDifferences + 1, "and 2 more differences"},
	} {
		t.Run(name, func(t *testing.T) {
			ought := state{}
			for i := range tc.n {
				ought[fmt.Sprint("Site ns/", i+1)] = map[string]any{"spec": "x"}
			}
			told := differences(state{}, ought)
			require.Len(t, told, tc.told, tc.reason)
			require.Equal(t, tc.last, told[len(told)-1], tc.reason)
		})
	}
}

func TestPlainer(t *testing.T) {
	p := plainer{names: map[string]string{"uid-1": "Site ns/a"}, generation: int64(3)}
	for name, tc := range map[string]struct {
		reason     string
		value, out any
	}{
		"UID":           {"it differs from run to run, its object doesn't", "uid-1", "(UID of Site ns/a)"},
		"UIDWithin":     {"within a text, too", "a-uid-1, b", "a-(UID of Site ns/a), b"},
		"UIDGone":       {"its object isn't there", "uid-2", "(UID of what is gone)"},
		"UIDLonger":     {"another one begins like it", "uid-12", "(UID of what is gone)"},
		"NoUID":         {"a word that ends like one", "fluid-1", "fluid-1"},
		"Time":          {"it differs from run to run", "2026-01-02T03:04:05Z", "(a time)"},
		"TimeMicro":     {"leases have finer ones", "2026-01-02T03:04:05.000006Z", "(a time)"},
		"TimeZone":      {"and some are of another zone", "2026-01-02T03:04:05+01:00", "(a time)"},
		"TimeWithin":    {"messages tell times", "until 2026-01-02T03:04:05Z, then b", "until (a time), then b"},
		"NoTime":        {"a day is the handler's", "2026-01-02, and nothing else: no", "2026-01-02, and nothing else: no"},
		"Text":          {"other texts stay", "a: b", "a: b"},
		"Bool":          {"other values stay", true, true},
		"Number":        {"numbers, too", int64(3), int64(3)},
		"Nil":           {"nothing stays nothing", nil, nil},
		"Observed":      {"the status is about the object as it is", map[string]any{"observedGeneration": int64(3)}, map[string]any{"observedGeneration": "that of the object"}},
		"ObservedEarly": {"the status is about an earlier one", map[string]any{"observedGeneration": int64(2)}, map[string]any{"observedGeneration": "an earlier one"}},
		"ObservedDeep": {
			"conditions have it, too",
			map[string]any{"conditions": []any{map[string]any{"observedGeneration": int64(3), "n": int64(3)}}},
			map[string]any{"conditions": []any{map[string]any{"observedGeneration": "that of the object", "n": int64(3)}}},
		},
		"Deep": {"all of an object", map[string]any{"l": []any{"uid-1", map[string]any{"u": "uid-2"}}}, map[string]any{"l": []any{"(UID of Site ns/a)", map[string]any{"u": "(UID of what is gone)"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.out, p.value(tc.value, nil), tc.reason)
		})
	}
}

func TestPlainerLeavesItsArgument(t *testing.T) {
	v := map[string]any{"a": map[string]any{"b": []any{"uid-1"}}}
	plainer{}.value(v, nil)
	require.Equal(t, map[string]any{"a": map[string]any{"b": []any{"uid-1"}}}, v)
}

func TestDrop(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, object, path, want string
	}{
		"Field":    {"it is gone", `{a: 1, b: 2}`, "a", `{b: 2}`},
		"Deep":     {"only the last of the path", `{a: {b: 1, c: 2}, b: 3}`, "a b", `{a: {c: 2}, b: 3}`},
		"Absent":   {"it needn't be there", `{a: {c: 2}}`, "a b", `{a: {c: 2}}`},
		"NoObject": {"a value that isn't an object has no fields", `{a: 1}`, "a b", `{a: 1}`},
		"Nothing":  {"no path, no field", `{a: 1}`, "", `{a: 1}`},
		"AnyName":  {"a star is any name", `{a: {x: 1, z: 2}, b: {x: 3}}`, "* x", `{a: {z: 2}, b: {}}`},
		"AllNames": {"at the end, too", `{a: {x: 1, z: 2}, b: 1}`, "a *", `{a: {}, b: 1}`},
		"List":     {"a star is every item", `{a: [{k: 1, m: 1}, {k: 2}, 3]}`, "a * k", `{a: [{m: 1}, {}, 3]}`},
		"ListName": {"without one it is every item, too", `{a: [{k: 1, m: 1}, {k: 2}]}`, "a k", `{a: [{m: 1}, {}]}`},
		"Lists":    {"lists in lists", `{a: [[{k: 1}], [{k: 2, m: 2}]]}`, "a * * k", `{a: [[{}], [{m: 2}]]}`},
		"Star":     {"in a list it is no name of the items", `{a: [{b: {k: 1}, k: 1}]}`, "a * k", `{a: [{b: {k: 1}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			object := sample.YAML(t, tc.object)
			drop(object, strings.Fields(tc.path))
			require.Equal(t, sample.YAML(t, tc.want), object, tc.reason)
		})
	}
}

func TestShown(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, tc := range map[string]struct {
		reason       string
		is, ought    any
		wantIs, want string
	}{
		"Short":     {"short ones are shown whole", map[string]any{"a": 1}, "b", `{"a":1}`, `"b"`},
		"Absent":    {"nothing is shown as such", nil, "b", "absent", `"b"`},
		"LongEnd":   {"what is alike is left out", x(200) + "a", x(200) + "b", "…" + x(30) + `a"`, "…" + x(30) + `b"`},
		"LongStart": {"what follows is left out", "a" + x(200), "b" + x(200), `"a` + x(118) + "…", `"b` + x(118) + "…"},
		"LongBoth":  {"both are", x(200) + "a" + x(200), x(200) + "b", "…" + x(30) + "a" + x(86) + "…", "…" + x(30) + `b"`},
		"OneIsLong": {"the other one is shown whole", x(200), nil, `"` + x(119) + "…", "absent"},
		"Beginning": {"one is the beginning of the other", x(200), x(300), "…" + x(30) + `"`, "…" + x(99+18) + "…"},
		"Runes":     {"no letter is cut in two", strings.Repeat("é", 100), "a", `"` + strings.Repeat("é", 59) + "…", `"a"`},
	} {
		t.Run(name, func(t *testing.T) {
			is, ought := shown(tc.is, tc.ought)
			require.Equal(t, []string{tc.wantIs, tc.want}, []string{is, ought}, tc.reason)
			require.True(t, utf8.ValidString(is+ought))
		})
	}
}

func TestShownNeverAlike(t *testing.T) {
	const letters = "aé€😀"
	for n := range 150 {
		text := strings.Repeat(letters, 20)[:n]
		if !utf8.ValidString(text) {
			continue
		}
		for _, ends := range [][2]string{{"é", "è"}, {"😀", "😁"}, {"a", ""}, {"€", "é"}} {
			is, ought := shown(text+ends[0]+letters, text+ends[1]+letters)
			require.NotEqual(t, is, ought, "after %d bytes: the reader has to see what differs", n)
			require.True(t, utf8.ValidString(is+ought), "after %d bytes", n)
			require.LessOrEqual(t, max(len(is), len(ought)), maxShown+len("…"), "after %d bytes", n)
		}
	}
}

func TestStateOf(t *testing.T) {
	secretOf := func(server server, parent *resource.Resource) {
		object := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
			"namespace": "ns", "name": "a", "ownerReferences": []any{map[string]any{"uid": string(parent.UID()), "name": "a"}},
		}}
		_, err := server.Create(object)
		require.NoError(t, err)
	}
	run := func(detours int) state {
		kinds := []fakeapi.Kind{fakeapi.Custom(site(), "sites"), fakeapi.Secrets(), fakeapi.ConfigMaps(), fakeapi.Leases()}
		w := &world{scenario: &Scenario{}, kinds: kinds, server: newInProcess(kinds), builtIn: listkeys.For}
		w.scenario.Ignore("spec", "detours")
		w.scenario.IgnoreType(k8s.ConfigMap)
		for i := range detours { // each has another UID, and another resourceVersion
			name := fmt.Sprint("detour-", i)
			for _, kind := range []string{"ConfigMap", "Lease"} {
				apiVersion := map[string]string{"ConfigMap": "v1", "Lease": k8s.Lease.APIVersion}[kind]
				_, err := w.server.Create(map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": "ns", "name": name}})
				require.NoError(t, err)
			}
		}
		object := aSite("ns", "a")
		object["spec"] = map[string]any{"detours": int64(detours), "n": int64(1)}
		parent, err := w.server.Create(object)
		require.NoError(t, err)
		secretOf(w.server, parent)
		return w.stateOf()
	}
	calm := run(0)
	require.Equal(t, calm, run(3), "neither UIDs, versions and leases count, nor what the author ignores")
	require.Equal(t, map[string]any{"n": int64(1)}, calm["Site ns/a"]["spec"], "the rest counts")
	meta := calm["Secret ns/a"]["metadata"].(map[string]any)
	require.Equal(t, []any{map[string]any{"uid": "(UID of Site ns/a)", "name": "a"}}, meta["ownerReferences"], "UIDs are told by name")
}
