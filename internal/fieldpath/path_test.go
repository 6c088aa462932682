package fieldpath

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	key := func(pairs ...any) Step {
		var step Step
		for i := 0; i < len(pairs); i += 2 {
			step.Key = append(step.Key, KeyValue{Name: pairs[i].(string), Value: pairs[i+1]})
		}
		return step
	}
	cases := map[string]struct {
		reason string
		text   string
		want   Path
	}{
		"Fields":    {"fields are joined by dots", `spec.replicas`, Path{Field("spec"), Field("replicas")}},
		"Quoted":    {"keys with dots are quoted", `metadata.annotations["a.b/c"]`, Path{Field("metadata"), Field("annotations"), Field("a.b/c")}},
		"Slash":     {"a slash needs no quotes", `metadata.labels.a/b`, Path{Field("metadata"), Field("labels"), Field("a/b")}},
		"Escapes":   {"quotes as in Go", `["a\"]\n"].b`, Path{Field("a\"]\n"), Field("b")}},
		"Key":       {"an item by key", `spec.containers[name=app].image`, Path{Field("spec"), Field("containers"), key("name", "app"), Field("image")}},
		"Keys":      {"an item by two keys", `ports[port=53,protocol=UDP]`, Path{Field("ports"), key("port", int64(53), "protocol", "UDP")}},
		"QuotedKey": {"a quoted value is text", `l[port="53",a="x,y]"]`, Path{Field("l"), key("port", "53", "a", "x,y]")}},
		"BoolKey":   {"a boolean", `l[on=true,off=false]`, Path{Field("l"), key("on", true, "off", false)}},
		"DotKey":    {"dots in values need no quotes", `hostAliases[ip=127.0.0.1]`, Path{Field("hostAliases"), key("ip", "127.0.0.1")}},
		"NameKey":   {"the name of a key may be quoted", `l["a=b"=c]`, Path{Field("l"), key("a=b", "c")}},
		"EmptyKey":  {"an empty value is quoted", `l[host=""]`, Path{Field("l"), key("host", "")}},
		"LooksLike": {"what looks like a number, but isn't written as one, is text", `l[a=007]`, Path{Field("l"), key("a", "007")}},
		"Index":     {"an item by index", `spec.rules[12]`, Path{Field("spec"), Field("rules"), {Index: 12}}},
		"Any":       {"any item", `spec.containers[*].resources`, Path{Field("spec"), Field("containers"), {Any: true}, Field("resources")}},
		"Nested":    {"brackets follow brackets", `a[0][*]["b"]`, Path{Field("a"), {}, {Any: true}, Field("b")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tc.text)
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
			again, err := Parse(got.String())
			require.NoError(t, err)
			require.Equal(t, got, again, "String is what Parse reads")
		})
	}
}

func TestParseRefuses(t *testing.T) {
	cases := map[string]struct{ reason, text, want string }{
		"Empty":        {"no path", ``, "empty"},
		"LeadingDot":   {"no JSONPath", `.spec`, "at character 1: want the name of a field"},
		"TrailingDot":  {"no name", `spec.`, "at character 6: want the name of a field"},
		"TwoDots":      {"no name", `a..b`, "at character 3: want the name of a field"},
		"DotBracket":   {"no name", `a.[0]`, "want the name of a field"},
		"NoDot":        {"no dot after a bracket", `a[0]b`, "at character 5: want a dot or an opening bracket"},
		"Space":        {"a space must be quoted", `a b`, "at character 2: want a dot or an opening bracket"},
		"Star":         {"a star belongs in brackets", `a.*`, "want the name of a field"},
		"Unclosed":     {"no bracket", `a[0`, "at character 4: want a closing bracket"},
		"UnclosedStar": {"no bracket", `a[*`, "want a closing bracket"},
		"UnclosedKey":  {"no bracket", `a[b=c`, "want a closing bracket"},
		"EmptyBracket": {"nothing in it", `a[]`, "want a name"},
		"Negative":     {"no index", `a[-1]`, "at character 3: want an index"},
		"Zeros":        {"no index", `a[007]`, "want an index"},
		"Bare":         {"a name must be quoted", `a[b]`, "want an index, *, key=value or a name in double quotes"},
		"NoValue":      {"no value", `a[b=]`, "at character 5: want a value"},
		"NoName":       {"no name", `a[=b]`, "at character 3: want a name"},
		"EmptyName":    {"no name", `a[""]`, "at character 3: want a name"},
		"SecondName":   {"no name", `a[b=c,]`, "want a name"},
		"SecondValue":  {"no value", `a[b=c,d]`, "want = after the name of a key"},
		"Twice":        {"a key given twice", `a[b=c,b=d]`, `at character 7: the key "b" is there already`},
		"OpenQuote":    {"no quote", `a["b]`, "want a string in double quotes"},
		"BadEscape":    {"no Go string", `a["\z"]`, "want a string in double quotes"},
		"BadValue":     {"no Go string", `a[b="c]`, "want a string in double quotes"},
		"NotUTF8":      {"not text", "a\xff", "not valid UTF-8"},
		"Unopened":     {"no bracket", `a]`, "want a dot or an opening bracket"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(tc.text)
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.ErrorContains(t, err, "field path")
		})
	}
}

func TestParseGivenRefuses(t *testing.T) {
	cases := map[string]struct{ reason, text, want string }{
		"Pointer":    {"it would be one name", "/spec/replicas", "a JSON Pointer; write it as in spec."},
		"Root":       {"kubectl's notation begins so", "{.spec.replicas}", "a JSONPath expression; write it as in spec."},
		"Dollar":     {"a name, as far as Parse knows", "$.spec.replicas", "a JSONPath expression; write it as in spec."},
		"LeadingDot": {"what Parse refuses", ".spec", "want the name of a field; write it as in spec."},
		"Index":      {"an object is no list", "[0].spec", "begins with an item"},
		"Any":        {"an object is no list", "[*]", "begins with an item"},
		"Key":        {"an object is no list", "[a=b]", "begins with an item"},
		"Annotation": {"the key's dots split it", "metadata.annotations.example.com/a", `leads into a string; quote the key, as in metadata.annotations["example.com/name"]`},
		"Label":      {"the key's dots split it", "metadata.labels.example.com/a", "metadata.labels["},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseGiven(tc.text)
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.ErrorContains(t, err, "field path")
		})
	}
	for _, text := range []string{"spec.replicas", `["a b"].c`, "metadata.labels.app", `metadata.annotations["example.com/a"]`, "spec.containers[*].image"} {
		given, err := ParseGiven(text)
		require.NoError(t, err, text)
		path, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, path, given)
	}
}

func TestString(t *testing.T) {
	require.Equal(t, `["a b"]`, Field("a b").String())
	require.Equal(t, `[x="true",y="1",z="",w=-5,v="a b"]`, Step{Key: []KeyValue{
		{"x", "true"}, {"y", "1"}, {"z", ""}, {"w", int64(-5)}, {"v", "a b"},
	}}.String())
	require.Equal(t, `[x=""]`, Step{Key: []KeyValue{{"x", 1.5}}}.String(), "no other types are possible")
	require.Empty(t, Path{}.String())
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`spec.replicas`, `a["b.c"][0][*][k=v,n=1,"x"="y z",t=true].d`, `a["\u00e9\xff"]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(path.String())
		if err != nil {
			t.Fatalf("Parse(%q).String() = %q: %v", text, path.String(), err)
		}
		if !reflect.DeepEqual(path, again) {
			t.Fatalf("Parse(%q) = %#v, but Parse(%q) = %#v", text, path, path.String(), again)
		}
	})
}
