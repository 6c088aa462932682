package rooms

import (
	"encoding/json"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// apart returns the modules that may resolve a dependency otherwise than the others, each with its reason.
func apart() map[string]string {
	return map[string]string{
		"hack/controlplane": "resolves its dependencies as the Kubernetes that it builds does",
	}
}

// TestModulesAgree holds that all modules of the repository resolve a dependency to the same version. Else the packages
// of the dependency, and all that import them, are compiled once per version.
func TestModulesAgree(t *testing.T) {
	type use struct{ dir, version string }
	uses := map[string][]use{}
	for _, dir := range modules(t) {
		if _, ok := apart()[dir]; ok {
			continue
		}
		for path, version := range requirements(t, dir) {
			uses[path] = append(uses[path], use{dir, version})
		}
	}
	for path, uses := range uses {
		for _, use := range uses[1:] {
			require.Equal(t, uses[0].version, use.version, "%s: %s and %s require it in different versions. In the one with the older: go get %s@VERSION && go mod tidy",
				path, uses[0].dir, use.dir, path)
		}
	}
}

// TestModulesTidy finds modules that don't name what the root module has come to need, which make test doesn't build. The
// starter's own test does the same for the starter, whose go.mod names a release.
func TestModulesTidy(t *testing.T) {
	for _, dir := range modules(t) {
		if _, ok := apart()[dir]; ok || dir == "examples/starter" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "go", "mod", "tidy", "-diff")
		cmd.Dir = filepath.Join(root, dir)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: go mod tidy would change:\n%s", dir, out)
	}
}

// TestModulesApart finds exceptions that name no module.
func TestModulesApart(t *testing.T) {
	found := modules(t)
	for dir, reason := range apart() {
		require.Contains(t, found, dir, reason)
	}
}

// modules returns the folders of all go.mod files of the repository.
func modules(t *testing.T) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if entry.Name() == "go.mod" {
			dir, err := filepath.Rel(root, filepath.Dir(path))
			found = append(found, filepath.ToSlash(dir))
			return err
		}
		return nil
	}))
	require.Contains(t, found, ".")
	require.Greater(t, len(found), 1)
	slices.Sort(found)
	return found
}

// requirements returns the versions that a go.mod names, which are all that a build of the module uses: Go lists the
// indirect ones too. A replaced module counts as what replaces it.
func requirements(t *testing.T, dir string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(root, dir)
	out, err := cmd.Output()
	require.NoError(t, err, dir)
	type version struct{ Path, Version string }
	var file struct {
		Require []version
		Replace []struct{ Old, New version }
	}
	require.NoError(t, json.Unmarshal(out, &file), dir)
	versions := map[string]string{}
	for _, r := range file.Require {
		if strings.HasPrefix(r.Path+"/", module) {
			continue
		}
		versions[r.Path] = r.Version
	}
	for _, r := range file.Replace {
		if _, ok := versions[r.Old.Path]; ok && (r.Old.Version == "" || r.Old.Version == versions[r.Old.Path]) {
			versions[r.Old.Path] = r.New.Path + " " + r.New.Version
		}
	}
	return versions
}
