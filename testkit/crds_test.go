package testkit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadCRDs(t *testing.T) {
	t.Parallel()
	definition := func(name string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + name + "\n"
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":   "# nothing\n---\n" + definition("one") + "---\nkind: Other\n---\n" + definition("two"),
		"b.json":   `{"kind": "CustomResourceDefinition", "metadata": {"name": "three"}}`,
		"c.yml":    definition("four"),
		"readme":   definition("not read"),
		"sub/d.md": definition("not read"),
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	require.NoError(t, os.WriteFile(broken, []byte("a: b: c"), 0o600))
	for name, tc := range map[string]struct {
		reason string
		paths  []string
		want   []string
		wrong  string
	}{
		"Folder":  {"files with CRDs, and in these no other kind", []string{dir}, []string{"one", "two", "three", "four"}, ""},
		"File":    {"whatever its name is", []string{filepath.Join(dir, "readme"), filepath.Join(dir, "b.json")}, []string{"not read", "three"}, ""},
		"Missing": {"a typo", []string{filepath.Join(dir, "absent")}, nil, "no such file"},
		"Broken":  {"the file is named", []string{broken}, nil, broken + ": "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crds, err := readCRDs(tc.paths)
			if tc.wrong != "" {
				require.ErrorContains(t, err, tc.wrong, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			var names []string
			for _, crd := range crds {
				names = append(names, crd.GetName())
			}
			require.Equal(t, tc.want, names, tc.reason)
		})
	}
}
