package tree

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/engine/explain"
)

func example() explain.Explanation {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	child := explain.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "blog"}
	return explain.Explanation{
		Parent: explain.Parent{Object: explain.Object{Kind: "Site", Namespace: "shop", Name: "blog"}, State: explain.Pending, Reason: "1 child is to be written"},
		Children: []explain.Child{{
			Object: child, State: explain.Differs, Verb: "update",
			Fields: []explain.Field{
				{Path: "data.a", Live: strings.Repeat("long ", 60), Desired: nil, By: &explain.Writer{Manager: "kubectl-edit", Operation: "Update", Time: &at}},
				{Path: "data.b", Live: "\x1b[31mred", Desired: "b", By: &explain.Writer{Manager: "sites", Self: true, Time: &at}},
				{Path: "data.c", Desired: int64(3), Perhaps: &explain.Writer{Manager: "(hidden)", Operation: "Apply", Subresource: "scale"}},
			},
		}},
		Related: []explain.Related{{Kind: "Secret", Namespace: "shop", Name: "key", From: []string{"spec.key"}}},
		Process: explain.Process{Unknown: "nobody answers"},
	}
}

func write(t *testing.T, e explain.Explanation, o Options) string {
	t.Helper()
	var b strings.Builder
	o.Now = time.Date(2026, 1, 2, 3, 6, 5, 0, time.UTC)
	require.NoError(t, Write(&b, e, o))
	return b.String()
}

func TestWrite(t *testing.T) {
	require.Equal(t, `Site shop/blog: pending
│ 1 child is to be written
├─ ConfigMap shop/blog: differs, to be updated
│    data.a
│      live: "`+strings.Repeat("long ", 39)+`long… (by "kubectl-edit", Update, 2026-01-02T03:04:05Z (2m ago))
│      desired: to be removed
│    data.b
│      live: "\u001b[31mred" (by the operator, 2026-01-02T03:04:05Z (2m ago))
│      desired: "b"
│    data.c
│      live: absent (nobody owns it; the last other writer of the object is another manager, whose name is hidden, Apply of scale, at an unknown time)
│      desired: 3
├─ related Secret shop/key: missing (from spec.key)
└─ process: what the running process knows is not here: nobody answers
`, write(t, example(), Options{}))
}

func TestWrite_Width(t *testing.T) {
	words := strings.Fields(strings.NewReplacer("│", "", "├─", "", "└─", "").Replace(write(t, example(), Options{})))
	for _, width := range []int{1, 40, 60, 80, 200} {
		text := write(t, example(), Options{Width: width})
		require.Equal(t, words, strings.Fields(strings.NewReplacer("│", "", "├─", "", "└─", "").Replace(text)), "the words stay")
		for line := range strings.Lines(text) {
			n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			require.True(t, n <= max(width, least+12) || len(strings.Fields(line)) <= 2, "%d columns: %q has %d", width, line, n)
		}
	}
}

// Thousands of children, fields and references that are alike are counted; those that aren't are told.
func TestWrite_Many(t *testing.T) {
	e := example()
	many := func(n int, child func(i int) explain.Child) (out []explain.Child) {
		for i := range n {
			out = append(out, child(i))
		}
		return out
	}
	object := func(kind string, i int) explain.Object {
		return explain.Object{APIVersion: "v1", Kind: kind, Namespace: "shop", Name: fmt.Sprintf("n%04d", i)}
	}
	e.Children = many(3000, func(i int) explain.Child {
		c := explain.Child{Object: object("ConfigMap", i), State: explain.AsDesired}
		switch {
		case i == 2500:
			c.Readiness, c.ReadinessMessage = "InProgress", "it starts"
		case i == 2600:
			c.State, c.Verb, c.Fields = explain.Differs, "update", make([]explain.Field, 300)
		case i > 2700:
			c.State, c.Verb = explain.Missing, "create"
		}
		return c
	})
	e.Children = append(e.Children, many(21, func(i int) explain.Child { return explain.Child{Object: object("Secret", i), State: explain.AsDesired} })...)
	for i := range 5000 {
		e.Related[0].Found = append(e.Related[0].Found, object("Secret", i))
		e.Children[2600].WaitsFor = append(e.Children[2600].WaitsFor, object("Pod", i))
		e.Process.Waits = append(e.Process.Waits, fmt.Sprintf("wait %d", i))
		e.Process.ChildErrors = append(e.Process.ChildErrors, explain.ChildError{Object: object("Pod", i), Message: "no"})
	}
	e.Related[0].Name, e.Related[0].Selector, e.Process.Unknown = "", "a=b", ""
	text := write(t, e, Options{})
	require.Less(t, strings.Count(text, "\n"), 300)
	for _, want := range []string{
		"ConfigMap shop/n0019: as desired\n", "ConfigMap: 2679 more, as desired (-o json names them)\n", "ConfigMap: 279 more, missing, to be created (-o json names them)\n",
		"ConfigMap shop/n2500: as desired\n", "not Current: InProgress: it starts\n", "ConfigMap shop/n2600: differs, to be updated\n", "and 280 more\n",
		"Secret: 1 more, as desired (-o json names them)\n", "and 4980 more\n", "wait 19\n",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "n0020: as desired")
	require.Less(t, strings.Index(text, "ConfigMap: 279 more"), strings.Index(text, "Secret shop/n0000"), "beside their kind")
}

// What others have written, such as messages, managers' names and errors, is no command of the terminal's.
func TestWrite_Hostile(t *testing.T) {
	const bad = "\x1b[2J\x1b]0;title\x07\r\u009b31m\u202e\x00\xff\x7f\tend"
	e := example()
	at := e.Children[0].Fields[0].By.Time
	e.Parent.Reason, e.Parent.Error = bad, bad+"\nsecond "+bad
	e.Parent.Conditions = []metav1.Condition{{Type: bad, Status: bad, Reason: bad, Message: bad + "\n" + bad}}
	c := &e.Children[0]
	c.Name, c.Reason, c.Error, c.Finalizers, c.Readiness, c.ReadinessMessage = bad, bad, bad, []string{bad}, bad, bad
	c.Fields = []explain.Field{{Path: bad, Live: bad, Desired: map[string]any{bad: bad}, By: &explain.Writer{Manager: bad, Operation: bad, Subresource: bad, Time: at}}}
	e.Related[0].From = []string{bad}
	for _, process := range []explain.Process{
		{Unknown: bad}, {From: bad, Leading: true, Held: true, Running: true, Call: bad, LastError: bad, Trigger: bad, NextPass: at, Waits: []string{bad}, Loop: &explain.Loop{Path: bad, Values: []string{bad, bad}}},
	} {
		e.Process = process
		for _, width := range []int{0, 1, 80} {
			for r := range strings.SplitSeq(write(t, e, Options{Width: width}), "") {
				require.True(t, r == "\n" || r == "\t" || strconv.IsPrint([]rune(r)[0]), "%q", r)
			}
		}
	}
}

func TestWrite_Colours(t *testing.T) {
	plain, coloured := write(t, example(), Options{Width: 60}), write(t, example(), Options{Width: 60, Colours: true})
	require.NotContains(t, plain, "\x1b")
	require.Contains(t, coloured, "\x1b[33mpending\x1b[0m")
	bare := coloured
	for _, s := range []style{bold, faint, red, green, yellow} {
		bare = strings.ReplaceAll(bare, "\x1b["+string(s)+"m", "")
	}
	require.Equal(t, plain, strings.ReplaceAll(bare, "\x1b[0m", ""), "colours take no room")
}

func TestWrite_Process(t *testing.T) {
	since, next := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2026, 1, 2, 3, 7, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		reason  string
		process explain.Process
		want    string
	}{
		"Standby":  {"another replica works", explain.Process{Held: true}, "it waits for the lease: another process leads"},
		"Unknown":  {"it looks elsewhere", explain.Process{Leading: true}, "it doesn't know the parent"},
		"Running":  {"a handler may hang", explain.Process{Leading: true, Held: true, Running: true, RunningSince: &since, Call: "Sync"}, "a pass is under way since 2026-01-02T03:04:05Z (2m ago), and the handler's Sync hasn't returned"},
		"Queued":   {"there are others", explain.Process{Leading: true, Held: true, Queued: true, Place: 2}, "the parent is due, after 2 other parents"},
		"First":    {"there are none", explain.Process{Leading: true, Held: true, Queued: true}, "the parent is due, and the next to have a pass"},
		"Timer":    {"a retry", explain.Process{Leading: true, Held: true, NextPass: &next, Trigger: "retry"}, "the next pass is due 2026-01-02T03:07:05Z (in 60s): retry"},
		"Idle":     {"it is settled", explain.Process{Leading: true, Held: true}, "nothing is due"},
		"For good": {"a permanent error", explain.Process{Leading: true, Held: true, Failures: 1, FailingSince: &since}, "the next pass comes when something changes\n     1 pass has failed in a row, since 2026-01-02T03:04:05Z (2m ago)"},
	} {
		t.Run(name, func(t *testing.T) {
			e := example()
			e.Process = tc.process
			e.Process.From = "pod"
			require.Contains(t, write(t, e, Options{}), "└─ process pod: "+tc.want+"\n", tc.reason)
		})
	}
}
