package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLimits finds the values of docs/reference/limits.md in the code, of which
// they are no more than copies.
func TestLimits(t *testing.T) {
	cases := map[string]struct {
		reason string
		file   string
		code   string // what the file has a match of
		page   string // what the page then says
	}{
		"Syncs":        {"The default of a field.", "internal/defaults/defaults.go", `MaxConcurrentSyncs = 16\n`, "| 16 | `MaxConcurrentSyncs`"},
		"MaxBackoff":   {"The default of a field.", "internal/defaults/defaults.go", `MaxErrorBackoff = 10 \* time\.Minute\n`, "at most 10 min | `MaxErrorBackoff` |"},
		"Backoff":      {"After an error.", "runner/schedule_backoff.go", `errorBackoffBase += 100 \* time\.Millisecond\n`, "| 100 ms, doubling"},
		"Throttle":     {"Of a conflict loop.", "runner/schedule_backoff.go", `throttleBackoffBase = time\.Second\n`, "| 1 s, doubling"},
		"Early":        {"Of a parent that keeps changing.", "runner/schedule_backoff.go", `earlyRetryInterval = time\.Second\n`, "tried again a second after its last try"},
		"Jitter":       {"Up to a half.", "runner/schedule_backoff.go", `s\.rnd\(\) \* float64\(d\) / 2\)`, "plus up to a half at random"},
		"Writes":       {"In all.", "runner/apply.go", `maxWrites += 64\n`, "64 in all"},
		"PassWrites":   {"Of one pass.", "runner/apply.go", `maxWritesPerPass = 16\n`, "| 16 of one pass"},
		"LoopWrites":   {"A loop has that many.", "runner/loops.go", `defaultLoopLimit += 5\n`, "| 5 suspicious writes"},
		"LoopAnswers":  {"A quarter of a suspicion.", "runner/loops.go", `answersPerWrite = 4\n`, "counts a quarter"},
		"LoopWindow":   {"Within this time.", "runner/loops.go", `defaultLoopWindow = time\.Minute\n`, "within a minute"},
		"Terminated":   {"Nobody tells when the namespace is there again.", "runner/sync.go", `terminated = 30 \* time\.Second\n`, "tried again after 30 s"},
		"Start":        {"Then it gives up.", "runner/kind.go", `startTimeout = 8 \* time\.Second\n`, "within 8 s"},
		"Shutdown":     {"Then passes are cut short.", "runner/options.go", `defaultShutdownTimeout = 30 \* time\.Second\n`, "have 30 s"},
		"Mark":         {"Of the annotation.", "runner/mark.go", `maxMark = 16 << 10\n`, "| 16 KiB |"},
		"Listed":       {"Of a log line.", "runner/sync.go", `maxListed = 20\n`, "| 20 |"},
		"Note":         {"Of an Event.", "runner/events.go", `maxEventNote += 1024\n`, "| 1,024 bytes |"},
		"OperatorName": {"Of a label's value.", "config/validate.go", `len\(o\.Name\) > validation\.LabelValueMaxLength`, "| 63 characters |"},
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/limits.md"))
	require.NoError(t, err)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, err := os.ReadFile(filepath.Join(root, tc.file))
			require.NoError(t, err)
			require.True(t, regexp.MustCompile(tc.code).Match(code), "%s Another value? Change the page and this test.", tc.reason)
			require.Contains(t, string(page), tc.page, tc.reason)
		})
	}
}
