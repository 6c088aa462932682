package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPage finds that the page is the one of the tests, and that every test has an id and a topic
// of its own.
func TestPage(t *testing.T) {
	t.Parallel()
	found, err := scenarios("..")
	require.NoError(t, err)
	for _, topic := range topics() {
		require.True(t, strings.HasSuffix(topic.about, "."), topic.name)
		require.True(t, slices.ContainsFunc(found, func(s scenario) bool { return s.topic == topic.name }), "no scenario has the topic %s", topic.name)
	}
	text, err := os.ReadFile("../../../docs/reference/scenarios.md")
	require.NoError(t, err)
	require.Equal(t, page(found), string(text), "run go generate ./test/conformance")
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	const change, loops = "change_test.go", "loops_hot_test.go"
	for name, tc := range map[string]struct {
		reason string
		files  map[string]string
		want   []scenario
		err    string
	}{
		"Sorted": {
			"C9 comes before C10, and a topic in the order of the page.",
			map[string]string{
				change: `func TestC10b_X(t *testing.T) { scenario(t, "C10b", "b") }
					func TestC10_X(t *testing.T) { scenario(t, "C10", "a"+"b") }
					func TestC9_X(t *testing.T) { needs(t); scenario(t, "C9", ` + "`say \"x\"`" + `) }
					func TestHelper(t *testing.T) {}`,
				loops: `func TestC1_Y(t *testing.T) { scenario(t, "C1", "y") }`,
			},
			[]scenario{
				{"C9", `say "x"`, "change", change, "TestC9_X"}, {"C10", "ab", "change", change, "TestC10_X"},
				{"C10b", "b", "change", change, "TestC10b_X"}, {"C1", "y", "loops", loops, "TestC1_Y"},
			},
			"",
		},
		"Duplicate": {
			"An id of two tests names neither.",
			map[string]string{
				change: `func TestC1_X(t *testing.T) { scenario(t, "C1", "x") }`, loops: `func TestC1_Y(t *testing.T) { scenario(t, "C1", "y") }`,
			},
			nil, "loops_hot_test.go: the id C1 belongs to TestC1_X in change_test.go too",
		},
		"NoTopic": {
			"A file is found by its topic.",
			map[string]string{"promises_test.go": `func TestC1_X(t *testing.T) { scenario(t, "C1", "x") }`},
			nil, `promises_test.go: "promises" is no topic of test/conformance/page`,
		},
		"NoTopicWithoutScenarios": {"Helpers need no topic.", map[string]string{"stage_helpers_test.go": "func TestX(t *testing.T) {}"}, nil, ""},
		"AnotherName": {
			"The test is run by its id.", map[string]string{change: `func TestC1_X(t *testing.T) { scenario(t, "C2", "x") }`},
			nil, `change_test.go: TestC1_X: the id "C2" is not that of the name, or not a letter and a number`,
		},
		"Word": {
			"A word is no id.", map[string]string{change: `func TestLoop_X(t *testing.T) { scenario(t, "Loop", "x") }`},
			nil, `change_test.go: TestLoop_X: the id "Loop" is not that of the name, or not a letter and a number`,
		},
		"Computed": {
			"A title that is computed can't be listed.", map[string]string{change: `func TestC1_X(t *testing.T) { scenario(t, "C1", title()) }`},
			nil, "change_test.go: TestC1_X: the title is not a constant text",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range tc.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte("package conformance\n"+text), 0o600))
			}
			found, err := scenarios(dir)
			if tc.err != "" {
				require.EqualError(t, err, tc.err, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, found, tc.reason)
		})
	}
}

// TestRun finds that the page is written, and that nothing is written where an id is used twice.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "page.md")
	test := filepath.Join(dir, "change_test.go")
	const one = "package conformance\nfunc TestC1_X(t *testing.T) { scenario(t, \"C1\", \"a|b\") }\n"
	require.NoError(t, os.WriteFile(test, []byte(one), 0o600))
	require.NoError(t, run(dir, file))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "| C1 | a\\|b | [change_test.go](../../test/conformance/change_test.go) |\n")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(test, []byte(one+"func TestC1_Y(t *testing.T) { scenario(t, \"C1\", \"y\") }\n"), 0o600))
	require.Error(t, run(dir, file))
	require.NoFileExists(t, file)
}
