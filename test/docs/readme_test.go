package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme holds the README to two screens, and to the commands with which a newcomer
// begins. test/starter runs the one that makes a copy of the starter.
func TestReadme(t *testing.T) {
	all := pages(t)
	readme, starter := all[0], &page{}
	for _, p := range all {
		if p.path == "examples/starter/README.md" {
			starter = p
		}
	}
	require.Equal(t, "README.md", readme.path)
	require.NotEmpty(t, starter.blocks)
	copied, _, _ := strings.Cut(starter.blocks[0].text, "\n")
	require.Contains(t, copied, "gonew")

	text, err := os.ReadFile(filepath.Join(root, readme.path))
	require.NoError(t, err)
	require.Less(t, strings.Count(string(text), "\n"), 96)
	commands := ""
	for _, b := range readme.blocks {
		if b.lang == "sh" {
			commands += b.text
		}
	}
	for _, command := range []string{copied + "\n", "\nmake demo ", "\nmake test "} {
		require.Contains(t, commands, command)
	}
}
