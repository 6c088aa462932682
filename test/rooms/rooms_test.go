// Package rooms holds which package of the engine may import which, and that all modules use the same versions.
package rooms

import (
	"errors"
	"go/build"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root   = "../.."
	module = "github.com/roperator/roperator/"
)

// vocabulary is what every room may import of this module: leaves without state.
func vocabulary() []string {
	return []string{
		"config", "handler", "handler/readiness", "resource", "resource/k8s",
		"internal/apierror", "internal/apirequest", "internal/crd", "internal/defaults", "internal/dryrun", "internal/encode", "internal/fieldpath",
		"internal/gotype", "internal/guard", "internal/jsonvalue", "internal/listkeys", "internal/object", "internal/process", "internal/redirect", "internal/textdiff",
	}
}

// A room is a package of the engine, or beside it, and what it may import.
type room struct {
	rooms []string // of this module besides the vocabulary
	never []string // prefixes of import paths
}

// pure are the imports by which a room could make a request, write a log, or
// look at the process's surroundings.
func pure() []string {
	return []string{"k8s.io/client-go", "net/http", "log", "os", "flag", "github.com/prometheus", "go.opentelemetry.io"}
}

// quiet are those that a room of the engine has no use for: the process's
// surroundings are internal/process's, and Prometheus is observe's.
func quiet() []string { return []string{"os", "flag", "github.com/prometheus"} }

// rooms lists the rooms in the order of their imports, from below.
func rooms() map[string]room {
	engine := func(names ...string) []string {
		for i, name := range names {
			names[i] = "internal/engine/" + name
		}
		return names
	}
	return map[string]room{
		"internal/engine/merge":       {nil, pure()},
		"internal/engine/store":       {nil, pure()},
		"internal/engine/schedule":    {nil, pure()},
		"internal/engine/conflict":    {nil, pure()},
		"internal/engine/shard":       {nil, pure()},
		"internal/engine/revision":    {nil, pure()},
		"internal/engine/observe":     {nil, []string{"os", "flag"}},
		"internal/engine/lead":        {engine("revision", "shard"), quiet()},
		"internal/engine/catalog":     {engine("merge", "shard"), quiet()},
		"internal/engine/plan":        {engine("catalog", "merge"), pure()},
		"internal/engine/client":      {engine("catalog", "observe", "revision", "shard"), quiet()},
		"internal/engine/watch":       {engine("catalog", "client", "observe", "revision", "schedule", "store"), quiet()},
		"internal/engine/apply":       {engine("catalog", "client", "merge", "observe", "plan", "store"), quiet()},
		"internal/engine/relate":      {engine("catalog", "client", "observe", "schedule", "store", "watch"), quiet()},
		"internal/engine/access":      {engine("client"), quiet()},
		"internal/engine/reconcile":   {engine("apply", "catalog", "client", "explain", "journal", "merge", "observe", "plan", "relate", "conflict", "schedule", "shard", "store", "view", "watch"), quiet()},
		"internal/engine/definitions": {engine("client"), quiet()},
		"internal/engine/leave":       {engine("catalog", "client", "lead", "plan"), quiet()},
		"internal/engine/manager": {append(engine("access", "catalog", "client", "definitions", "explain", "journal", "lead", "leave", "observe", "plan", "reconcile", "revision", "schedule", "shard", "view", "watch"),
			"internal/recording"), quiet()},
		"internal/logbuffer":     {nil, pure()},
		"internal/manifests":     {engine("catalog"), pure()},
		"internal/cli/uninstall": {append(engine("lead", "leave"), "internal/cli/terminal"), pure()},
		"internal/cli/planfile":  {engine("plan"), []string{"k8s.io/client-go", "net/http", "github.com/prometheus"}},
		"internal/cli/planprint": {append(engine("plan"), "internal/cli/terminal"), pure()},
		"internal/cli": {append(engine("access", "catalog", "client", "explain", "leave", "plan", "shard"), "internal/cli/planfile", "internal/cli/planprint", "internal/cli/uninstall", "internal/logbuffer",
			"internal/manifests", "internal/cli/terminal", "internal/cli/explain/reach", "internal/cli/explain/tree"), []string{"github.com/prometheus"}},
		"runner": {append(engine("access", "explain", "lead", "leave", "manager", "observe", "plan"), "internal/cli", "internal/window"), []string{"os"}},

		"internal/engine/journal": {nil, pure()},
		"internal/engine/view":    {engine("explain", "journal", "plan"), pure()},
		"internal/recording":      {nil, pure()},
		"internal/window":         {engine("explain", "view"), []string{"k8s.io/client-go", "os", "flag", "github.com/prometheus"}},

		"internal/engine/explain":    {engine("catalog", "plan"), pure()},
		"internal/cli/terminal":      {nil, []string{"github.com/prometheus", "k8s.io"}},
		"internal/cli/explain/tree":  {append(engine("explain"), "internal/cli/terminal"), pure()},
		"internal/cli/explain/reach": {engine("explain"), []string{"github.com/prometheus"}},
	}
}

// TestWalls fails if a room imports what it may not. It reads what each room
// imports, with every build tag off, and not what its tests do.
func TestWalls(t *testing.T) {
	for name, r := range rooms() {
		t.Run(name, func(t *testing.T) {
			pkg, err := build.ImportDir(filepath.Join(root, name), 0)
			require.NoError(t, err)
			for _, imported := range pkg.Imports {
				require.True(t, r.may(imported), "%s imports %s: it is above, beside, or not for this room", name, imported)
			}
		})
	}
}

func (r room) may(imported string) bool {
	if own, ok := strings.CutPrefix(imported, module); ok {
		return slices.Contains(vocabulary(), own) || slices.Contains(r.rooms, own)
	}
	return !slices.ContainsFunc(r.never, func(never string) bool {
		return imported == never || strings.HasPrefix(imported, never+"/")
	})
}

// TestRoomsAreKnown fails if there is a package that TestWalls doesn't know, in the engine or in
// a folder that has a room.
func TestRoomsAreKnown(t *testing.T) {
	known := rooms()
	for _, folder := range []string{"internal/engine", "internal/cli", "internal/manifests", "internal/recording", "internal/logbuffer", "internal/window", "runner"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			var none *build.NoGoError
			if _, err := build.ImportDir(path, 0); errors.As(err, &none) {
				return nil // a folder of folders, or of files that aren't code
			}
			name, err := filepath.Rel(root, path)
			require.Contains(t, known, filepath.ToSlash(name), "say what it may import")
			return err
		})
		require.NoError(t, err)
	}
}

// TestVocabularyIsBelow fails if the shared vocabulary imports a room.
func TestVocabularyIsBelow(t *testing.T) {
	for _, name := range vocabulary() {
		pkg, err := build.ImportDir(filepath.Join(root, name), 0)
		require.NoError(t, err)
		for _, imported := range pkg.Imports {
			if own, ok := strings.CutPrefix(imported, module); ok {
				require.Contains(t, vocabulary(), own, "%s imports %s", name, imported)
			}
		}
	}
}

// TestMay shows that a wall which is broken is seen.
func TestMay(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, room, imported string
		want                   bool
	}{
		"upwards":    {"merge decides, and knows no store", "internal/engine/merge", module + "internal/engine/store", false},
		"beside":     {"what is planned isn't applied by the planner", "internal/engine/plan", module + "internal/engine/apply", false},
		"requests":   {"plan is pure", "internal/engine/plan", "k8s.io/client-go/rest", false},
		"metrics":    {"only observe counts", "internal/engine/reconcile", "github.com/prometheus/client_golang/prometheus", false},
		"window":     {"it shows, and asks nobody itself", "internal/window", module + "internal/engine/manager", false},
		"recording":  {"the manager writes it", "internal/window", module + "internal/recording", false},
		"journal":    {"whoever works writes into it, and it knows nobody", "internal/engine/journal", module + "internal/engine/schedule", false},
		"facade":     {"the engine is below runner", "internal/engine/manager", module + "runner", false},
		"downwards":  {"that is what rooms are for", "internal/engine/plan", module + "internal/engine/merge", true},
		"vocabulary": {"everybody speaks it", "internal/engine/merge", module + "internal/jsonvalue", true},
		"library":    {"nothing against it", "internal/engine/store", "k8s.io/apimachinery/pkg/types", true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, rooms()[tc.room].may(tc.imported), tc.reason)
		})
	}
}
