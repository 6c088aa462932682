package planprint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// sampleReport has all that an output may show.
func sampleReport() Report {
	p := types.NamespacedName{Namespace: "ns", Name: "p"}
	other := types.NamespacedName{Namespace: "ns", Name: "other"}
	return Report{
		Several: true,
		Fails:   func(c plan.Change) bool { return c.Verb == "recreate" },
		Plans: []Plan{
			{
				Operator: "op", Parent: "Parent", Changes: append(samplePlan(),
					plan.Change{Parent: p, Object: other, Type: k8s.Deployment, Verb: "create", Waits: "waits for Deployment ns/c"},
					plan.Change{Parent: p, Object: other, Type: k8s.ConfigMap, Verb: "update", Unsure: true, Fields: []plan.FieldChange{
						{Path: "data.text", Live: "100%\n::error::x\n", Desired: "```\n##[error]x\n<b>@all</b>\n"},
					}},
				),
				Places: map[types.NamespacedName]Place{p: {File: "deploy/a,b.yaml", Line: 3}},
			},
			{Operator: "second", Parent: "Other"},
		},
	}
}

// TestOutputs compares each output with a golden file, which
// ROPERATOR_UPDATE_GOLDEN=1 writes.
func TestOutputs(t *testing.T) {
	for name, write := range map[string]func(b *strings.Builder, r Report) error{
		"plan.txt":  func(b *strings.Builder, r Report) error { return Text(b, r) },
		"plan.json": func(b *strings.Builder, r Report) error { return JSON(b, r) },
		"plan.md":   func(b *strings.Builder, r Report) error { return Markdown(b, r) },
		"plan.gh":   func(b *strings.Builder, r Report) error { return GitHub(b, r, "TOKEN") },
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			require.NoError(t, write(&b, sampleReport()))
			path := filepath.Join("testdata", name)
			if os.Getenv("ROPERATOR_UPDATE_GOLDEN") == "1" {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), b.String())
		})
	}
}

// No text of an object becomes a command of the workflow.
func TestGitHubHasNoOtherCommands(t *testing.T) {
	var b strings.Builder
	require.NoError(t, GitHub(&b, sampleReport(), "TOKEN"))
	stopped, commands := false, 0
	for line := range strings.Lines(b.String()) {
		switch {
		case stopped && line == "::TOKEN::\n":
			stopped = false
		case stopped: // whatever it is
		case line == "::stop-commands::TOKEN\n":
			stopped = true
		default:
			require.Regexp(t, `^::(group|endgroup|error|warning|notice)[ :]`, line)
			commands++
		}
	}
	require.False(t, stopped)
	require.Equal(t, 2+len(sampleReport().Plans[0].Changes), commands)
}

func TestGitHubBounds(t *testing.T) {
	r := one(nil)
	for i := range 25 {
		r.Plans[0].Changes = append(r.Plans[0].Changes, plan.Change{
			Object: types.NamespacedName{Name: fmt.Sprint(i)}, Type: k8s.ConfigMap, Verb: "delete",
			Fields: []plan.FieldChange{{Path: "data.x", Live: strings.Repeat("x\n", 100), Desired: ""}},
		})
	}
	var b strings.Builder
	require.NoError(t, GitHub(&b, r, "TOKEN"))
	require.Equal(t, 10, strings.Count(b.String(), "::warning "))
	require.Contains(t, b.String(), "::warning title=plan::and 16 more changes: see the log\n")
	require.Contains(t, b.String(), "more lines\n")
}

func TestMarkdownBounds(t *testing.T) {
	change := func(size int) plan.Change {
		return plan.Change{
			Object: types.NamespacedName{Name: "x"}, Type: k8s.ConfigMap, Verb: "delete",
			Fields: []plan.FieldChange{{Path: "data.x", Live: strings.Repeat("`é\n", size), Desired: ""}},
		}
	}
	for name, tc := range map[string]struct {
		reason    string
		sizes     []int
		left, cut bool
	}{
		"Fits":     {"all is there", []int{10, 10}, false, false},
		"OneLong":  {"the first lines of a change that is too long", []int{60_000}, false, true},
		"ManyMore": {"the others are counted", append([]int{60_000}, make([]int, 500)...), true, true},
		"AllFail":  {"their list is bounded too", make([]int, 5_000), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := one(nil)
			r.Fails = func(plan.Change) bool { return true }
			for _, size := range tc.sizes {
				r.Plans[0].Changes = append(r.Plans[0].Changes, change(size))
			}
			var b strings.Builder
			require.NoError(t, Markdown(&b, r))
			require.LessOrEqual(t, b.Len(), MaxMarkdown, tc.reason)
			require.True(t, utf8.ValidString(b.String()))
			require.Contains(t, b.String(), "</details>\n", "the fold is closed")
			require.Equal(t, tc.left, strings.Contains(b.String(), "left out"), tc.reason)
			require.Equal(t, tc.cut, strings.Contains(b.String(), "more line") || strings.Contains(b.String(), "left out"), tc.reason)
		})
	}
}

func TestCodeSpan(t *testing.T) {
	for name, tc := range map[string]struct{ reason, text, want string }{
		"Plain": {"as anybody writes it", "a", "`a`"},
		"Inner": {"the fence is longer", "a`b``c", "```a`b``c```"},
		"Ends":  {"a space keeps the backticks apart", "`a`", "`` `a` ``"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, codeSpan(tc.text), tc.reason) })
	}
}

func TestNotes(t *testing.T) {
	unsure := one([]plan.Change{{Type: sample.ParentType(), Verb: "update", Unsure: true}})
	for name, tc := range map[string]struct {
		reason             string
		readOnly, supposed bool
		want               string
	}{
		"Webhook":  {"which takes no dry run", false, false, "1 change unsure: no dry run"},
		"ReadOnly": {"by the flag", true, false, "Read only: the API server wasn't asked what it would make of the changes."},
		"Files":    {"nor of the parents", true, true, "The parents are neither defaulted nor admitted"},
	} {
		t.Run(name, func(t *testing.T) {
			r := unsure
			r.ReadOnly, r.Supposed = tc.readOnly, tc.supposed
			for _, write := range []func(*strings.Builder) error{
				func(b *strings.Builder) error { return Text(b, r) },
				func(b *strings.Builder) error { return Markdown(b, r) },
				func(b *strings.Builder) error { return GitHub(b, r, "T") },
			} {
				var b strings.Builder
				require.NoError(t, write(&b))
				require.Contains(t, b.String(), tc.want, tc.reason)
				require.Contains(t, b.String(), "update, unsure", tc.reason)
			}
		})
	}
	sure := one(nil)
	require.Empty(t, sure.notes())
}
