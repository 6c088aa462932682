package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLimits finds the values of docs/reference/limits.md in the code, of which
// they are no more than copies.
func TestLimits(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     string // a package
		code   string // what its code has a match of
		page   string // what the page then says
	}{
		"Syncs":        {"The default of a field.", "internal/defaults", `MaxConcurrentSyncs = 16\n`, "| 16 | `MaxConcurrentSyncs`"},
		"MaxBackoff":   {"The default of a field.", "internal/defaults", `MaxErrorBackoff = 10 \* time\.Minute\n`, "at most 10 min | `MaxErrorBackoff` |"},
		"Backoff":      {"After an error.", "internal/engine/schedule", `errorBackoffBase += 100 \* time\.Millisecond\n`, "| 100 ms, doubling"},
		"Throttle":     {"Of a conflict loop.", "internal/engine/schedule", `throttleBackoffBase = time\.Second\n`, "| 1 s, doubling"},
		"Early":        {"Of a parent that keeps changing.", "internal/engine/schedule", `earlyRetryInterval = time\.Second\n`, "tried again a second after its last try"},
		"Jitter":       {"Up to a half.", "internal/engine/schedule", `s\.jitter\(\) \* float64\(d\) / 2\)`, "plus up to a half at random"},
		"Writes":       {"Of one operator.", "internal/engine/reconcile", `(?i)maxWrites = 64\n`, "64 of one operator"},
		"PassWrites":   {"Of one pass.", "internal/engine/apply", `(?i)maxWritesPerPass = 16\n`, "| 16 of one pass"},
		"Hastened":     {"By a change.", "internal/engine/plan", `hastened = time\.Second\n`, "a second after its last try at the earliest"},
		"SlowStart":    {"So many rejections.", "internal/engine/apply", `alike = 3\n`, "after 3 rejections in a row one at a time"},
		"SlowProbes":   {"After a pause.", "internal/engine/plan", `probesAfterPause = 16\n`, "16 after a pause of 10 s"},
		"SlowPause":    {"A long one.", "internal/engine/plan", `longPause += 10 \* time\.Second\n`, "after a pause of 10 s"},
		"LoopRepeats":  {"A loop has that many.", "internal/engine/conflict", `\tlimit += 5 //`, "5 writes that give an object"},
		"LoopStates":   {"Of these.", "internal/engine/conflict", `lastStates += 4 //`, "one of its last 4 states"},
		"LoopNews":     {"A proof is asked for.", "internal/engine/conflict", `newStates += 3 //`, "3 new states"},
		"LoopRate":     {"That many, and more.", "internal/engine/conflict", `freeWrites += +30 +//`, "more than 30 writes"},
		"LoopRateEach": {"For each child.", "internal/engine/conflict", `writesPerChild += +3 +//`, "and 3 for each desired child"},
		"LoopRateAll":  {"Of others.", "internal/engine/conflict", `childrenFactor = 10\n`, "10 times as many if other"},
		"LoopStatus":   {"Of a status.", "internal/engine/conflict", `statusFactor   = 40\n`, "40 times for a status"},
		"LoopPace":     {"Of a rate.", "internal/engine/schedule", `pacedInterval = 2 \* time\.Second\n`, "2 s each time"},
		"LoopFight":    {"The first report.", "internal/engine/conflict", `firstReport = 5 +//`, "restores 5, 10, 20"},
		"LoopWindow":   {"Within this time.", "internal/engine/conflict", `window += time\.Minute\n`, "within a minute"},
		"Terminated":   {"Nobody tells when the namespace is there again.", "internal/engine/reconcile", `terminatingRetry = 30 \* time\.Second\n`, "tried again after 30 s"},
		"Start":        {"Then it gives up.", "internal/engine/catalog", `discoveryTimeout = 8 \* time\.Second\n`, "within 8 s"},
		"Shutdown":     {"Then passes are cut short.", "internal/defaults", `ShutdownTimeout = 30 \* time\.Second\n`, "have 30 s"},
		"Mark":         {"Of the annotation.", "internal/engine/plan", `maxMark = 16 << 10\n`, "| 16 KiB |"},
		"Listed":       {"Of a log line.", "internal/apierror", `(?i)maxListed = 20\n`, "| 20 |"},
		"Note":         {"Of an Event.", "internal/engine/observe", `(?i)maxEventNote += 1024\n`, "| 1,024 bytes |"},
		"LogPatience":  {"Of a line of the log.", "internal/logbuffer", `patience = 100 \* time\.Millisecond\n`, "each waits 0.1 s at most"},
		"LogBuffer":    {"Of lines that nobody reads.", "internal/logbuffer", `maxPending = 1 << 20\n`, "1 MiB is kept"},
		"LogFlush":     {"When the process ends.", "internal/cli", `flushTimeout = 3 \* time\.Second\n`, "at the end of the process they have 3 s"},
		"LongPass":     {"Then the log tells of it.", "internal/engine/reconcile", `longPass = time\.Minute\n`, "logged after 1 min,"},
		"OverduePass":  {"Then the operator isn't ready.", "internal/engine/reconcile", `overduePass = 10 \* time\.Minute\n`, "after 10 min the operator isn't ready"},
		"Related":      {"Of one type in one namespace.", "internal/engine/relate", `(?i)mostWatches += 64 `, "64 of one type in one namespace"},
		"Connections":  {"Of one address.", "internal/engine/manager", `maxConnections = 32\n`, "| 32 at once;"},
		"Window":       {"Of its address.", "internal/engine/manager", `maxWindowConnections = 64\n`, "| 64 at once, likewise |"},
		"Passes":       {"Of one parent.", "internal/engine/journal", `PassesOfParent = 100\n`, "| 100 of a parent,"},
		"AllPasses":    {"Of one operator.", "internal/engine/journal", `maxPasses = 16 << 10 `, "16,384 of an operator"},
		"Looks":        {"Of all operators.", "internal/engine/manager", `maxRehearsals = 4\n`, "| 4 at once, of which 1 plan;"},
		"Streams":      {"Of the window.", "internal/window", `maxStreams = 32\n`, "| 32 at once: a page"},
		"Warnings":     {"Of one type.", "internal/engine/client", `maxWarnings = 100\n`, "| 1,024 bytes of each; 100 different ones"},
		"WarningPause": {"Then they are logged again.", "internal/engine/client", `warningPeriod = time\.Hour\n`, "then none for an hour"},
		"WarningText":  {"Of one warning.", "internal/engine/client", `maxWarning = 1 << 10\n`, "| 1,024 bytes of each"},
		"OperatorName": {"Of a label's value.", "config", `len\(o\.Name\) > validation\.LabelValueMaxLength`, "| 63 characters |"},
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/limits.md"))
	require.NoError(t, err)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Regexp(t, tc.code, codeOf(t, tc.in), "%s Another value? Change the page and this test.", tc.reason)
			require.Contains(t, string(page), tc.page, tc.reason)
		})
	}
}

// codeOf returns the code of a package, its tests aside.
func codeOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(code)
	}
	return all.String()
}
