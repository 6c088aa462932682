package helm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// build returns the objects that kustomize makes of a directory.
func build(t *testing.T, dir string) string {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	require.NoError(t, err)
	text, err := made.AsYaml()
	require.NoError(t, err)
	return string(text)
}

// Kustomize makes of the base what is printed.
func TestKustomize(t *testing.T) {
	for name, tc := range map[string]struct{ reason, program, flags string }{
		"AsItComes":  {"nothing is said", "mice", ""},
		"All":        {"all that can be asked for", "mice", all + " --arg=--metrics-secure"},
		"Restricted": {"Roles in the namespaces of the configuration", "restricted", all},
		"Several":    {"one installation", "several", all},
		"Dots":       {"in the name", "teams", all},
	} {
		t.Run(name, func(t *testing.T) {
			flags := append([]string{"--image=example.com/i:v1"}, strings.Fields(tc.flags)...)
			dir := filepath.Join(t.TempDir(), "base")
			manifests(t, tc.program, append(slices.Clone(flags), "-o=kustomize", "--output-dir="+dir)...)
			require.ElementsMatch(t, objects(t, manifests(t, tc.program, flags...)), objects(t, build(t, dir)), tc.reason)
		})
	}
}

// An overlay says where the operator is installed, which image it has, and how many replicas.
func TestKustomizeOverlay(t *testing.T) {
	dir := t.TempDir()
	manifests(t, "mice", "--image=example.com/i:v1", "-o=kustomize", "--output-dir="+dir+"/base", "--parent-roles", "--network-policy", "--arg=--metrics-secure")
	require.NoError(t, os.Mkdir(dir+"/overlay", 0o700))
	require.NoError(t, os.WriteFile(dir+"/overlay/kustomization.yaml", []byte(`
resources: [../base]
namespace: only
images: [{name: example.com/i, newName: mirror.example.com/i, newTag: v2}]
replicas: [{name: mice, count: 3}]
`), 0o600))
	made := objects(t, build(t, dir+"/overlay"))
	want := objects(t, manifests(t, "mice", "--image=mirror.example.com/i:v2", "--install-namespace=only", "--parent-roles", "--network-policy", "--arg=--metrics-secure"))
	for _, o := range want {
		if o["kind"] == "Deployment" {
			o["spec"].(object)["replicas"] = 3.0
		}
	}
	require.ElementsMatch(t, want, made, "what the flags say")
	dryRun(t, made)
}
