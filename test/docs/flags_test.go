package docs

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFlags finds the help of every subcommand in the reference. That it is
// what the program prints is for TestSessions to find out.
func TestFlags(t *testing.T) {
	for _, p := range pages(t) {
		if p.path != "docs/reference/flags.md" {
			continue
		}
		steps, err := commands(p)
		require.NoError(t, err)
		require.NotEmpty(t, steps)
		shown := map[string]bool{"run": true} // has the flags of the whole
		for _, c := range steps {
			if m := regexp.MustCompile(`^\./sites ([a-z-]+) --help$`).FindStringSubmatch(c.text); m != nil {
				shown[m[1]] = true
			}
		}
		found := regexp.MustCompile(`(?m)^  ([a-z-]+) {2,}`).FindAllStringSubmatch(steps[0].output, -1)
		require.Greater(t, len(found), 3, "the help lists the subcommands")
		for _, m := range found {
			require.True(t, shown[m[1]], "the page doesn't show the help of %s", m[1])
		}
		return
	}
	t.Fatal("there is no reference of the flags")
}
