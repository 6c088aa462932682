package planfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, text string
		want         []string // "source | line | object"
		err          string
	}{
		"One":       {"a file as kubectl takes it", "kind: A\nmetadata: {name: a}\n", []string{"FILE: document 1 | 1 | A /a"}, ""},
		"Several":   {"documents without anything don't count", "# head\n---\nkind: A\n---\n# nothing\n---\n\n---  # b\nkind: B\nmetadata: {name: b, namespace: ns}\n", []string{"FILE: document 1 | 3 | A /", "FILE: document 2 | 9 | B ns/b"}, ""},
		"JSON":      {"YAML has it", `{"kind": "A", "metadata": {"name": "a"}}`, []string{"FILE: document 1 | 1 | A /a"}, ""},
		"List":      {"as kubectl get prints it", "kind: List\nitems: [{kind: A}, {kind: B}]\n", []string{"FILE: document 1, item 1 | 1 | A /", "FILE: document 1, item 2 | 1 | B /"}, ""},
		"Windows":   {"line ends", "kind: A\r\n---\r\nkind: B\r\n", []string{"FILE: document 1 | 1 | A /", "FILE: document 2 | 3 | B /"}, ""},
		"Text":      {"dashes in a text", "kind: A\nspec: {x: \"---\"}\ntext: |\n  ---\n", []string{"FILE: document 1 | 1 | A /"}, ""},
		"Empty":     {"perhaps a variable was empty", "", nil, "FILE: empty: there is no object in it"},
		"Comment":   {"the same", "# later\n---\n", nil, "FILE: empty: there is no object in it"},
		"EmptyList": {"the same", "kind: List\nitems: []\n", nil, "FILE: empty: there is no object in it"},
		"NoYAML":    {"the document is named, and the others are read", "kind: A\n---\nkind: [\n---\nkind: C\n", nil, "FILE: document 2: not YAML: "},
		"Twice":     {"one of them would be lost", "kind: A\nkind: B\n", nil, `FILE: document 1: not YAML: `},
		"Scalar":    {"any text is YAML", "hello\n", nil, "FILE: document 1: not an object of Kubernetes: it must have apiVersion, kind and metadata"},
		"Items":     {"of a List", "kind: List\nitems: [a]\n", nil, "FILE: document 1: item 1 isn't an object of Kubernetes"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f.yaml")
			require.NoError(t, os.WriteFile(path, []byte(tc.text), 0o600))
			parents, err := Read([]string{path}, nil)
			if tc.err != "" {
				require.ErrorContains(t, err, strings.ReplaceAll(tc.err, "FILE", path), tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			var got []string
			for _, p := range parents {
				require.Equal(t, path, p.File)
				got = append(got, strings.ReplaceAll(p.Source, path, "FILE")+" | "+string(rune('0'+p.Line))+" | "+p.Type().Kind+" "+p.Key().String())
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestReadPaths(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		reason string
		paths  []string
		err    string
	}{
		"Missing": {"the error names it", []string{filepath.Join(dir, "no.yaml")}, "-f: open " + filepath.Join(dir, "no.yaml")},
		"Folder":  {"which file is meant?", []string{dir}, "is a directory"},
		"Twice":   {"stdin could only be read once", []string{"-", "-"}, "-f -: given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(tc.paths, strings.NewReader("kind: A\n"))
			require.ErrorContains(t, err, tc.err, tc.reason)
		})
	}
	parents, err := Read([]string{"-"}, strings.NewReader("kind: A\nspec: {count: 3, share: 0.5}\n"))
	require.NoError(t, err)
	require.Equal(t, "standard input: document 1", parents[0].Source)
	require.Empty(t, parents[0].File)
	require.Equal(t, map[string]any{"count": int64(3), "share": 0.5}, parents[0].Object["spec"], "integers stay integers")
	_, err = Read([]string{"-"}, strings.NewReader(" \n"))
	require.EqualError(t, err, "standard input: empty: there is no object in it")
	none, err := Read(nil, nil)
	require.NoError(t, err)
	require.Empty(t, none)
}
