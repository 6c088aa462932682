package textdiff_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/textdiff"
)

func ExampleHunks() {
	for _, hunk := range textdiff.Hunks("a\nb\nc\n", "a\nB\nc\n", 1) {
		fmt.Println("line", hunk.Line)
		for _, line := range hunk.Lines {
			fmt.Println(line.Sign, line.Text)
		}
	}
	// Output:
	// line 2
	//   a
	// - b
	// + B
	//   c
}

// show writes a hunk as "line+skipped", then its lines: "3+1  b-c+C d".
func show(hunks []textdiff.Hunk) []string {
	var out []string
	for _, h := range hunks {
		text := fmt.Sprintf("%d+%d ", h.Line, h.Skipped)
		for _, line := range h.Lines {
			text += line.Sign + line.Text
		}
		out = append(out, text)
	}
	return out
}

func TestHunks(t *testing.T) {
	t.Parallel()
	text := func(lines string) string { return strings.Join(strings.Split(lines, ""), "\n") + "\n" }
	cases := map[string]struct {
		reason        string
		before, after string
		context       int
		want          []string
	}{
		"same":                {"nothing differs", text("abc"), text("abc"), 1, nil},
		"both empty":          {"nothing differs", "", "", 1, nil},
		"changed":             {"removed comes before added", text("abc"), text("axc"), 1, []string{"2+0  a-b+x c"}},
		"added at the end":    {"the line that would follow", text("a"), text("ab"), 1, []string{"2+0  a+b"}},
		"added at the start":  {"no line comes before", text("b"), text("ab"), 1, []string{"1+0 +a b"}},
		"removed":             {"the end of both is the same", text("abc"), text("c"), 1, []string{"1+0 -a-b c"}},
		"all new":             {"an empty text has no lines", "", text("ab"), 1, []string{"1+0 +a+b"}},
		"all gone":            {"an empty text has no lines", text("ab"), "", 1, []string{"1+0 -a-b"}},
		"nothing alike":       {"one place", text("abc"), text("xyz"), 1, []string{"1+0 -a-b-c+x+y+z"}},
		"no context":          {"only what differs", text("abc"), text("axc"), 0, []string{"2+1 -b+x"}},
		"two places":          {"what lies between isn't shown", text("abcdefgh"), text("aBcdefGh"), 1, []string{"2+0  a-b+B c", "7+2  f-g+G h"}},
		"two places nearby":   {"their context joins them", text("abcde"), text("aBcDe"), 1, []string{"2+0  a-b+B c-d+D e"}},
		"context that meets":  {"nothing is left out between", text("abcdef"), text("aBcdEf"), 1, []string{"2+0  a-b+B c d-e+E f"}},
		"no context, two":     {"a line between parts them", text("abc"), text("xby"), 0, []string{"1+0 -a+x", "3+1 -c+y"}},
		"moved":               {"a line that has moved is removed and added", text("abcd"), text("bcda"), 0, []string{"1+0 -a", "5+3 +a"}},
		"an item in a list":   {"the rest of the list is found again", text("-ab-cb-db"), text("-ab-xb-cb-db"), 0, []string{"5+4 +x+b+-"}},
		"far":                 {"lines left out are counted", text("123456"), text("123457"), 3, []string{"6+2  3 4 5-6+7"}},
		"no newline anymore":  {"it is a difference", "a\nb\n", "a\nb", 1, []string{"3+1  b+(no newline at the end)"}},
		"no newline so far":   {"it is a difference", "a\nb", "a\nb\n", 1, []string{"3+1  b-(no newline at the end)"}},
		"no newline in both":  {"it is no difference", "a\nb", "x\nb", 0, []string{"1+0 -a+x"}},
		"empty lines":         {"they are lines", "a\n\n\nb\n", "a\n\nb\n", 0, []string{"3+2 -"}},
		"nothing but a break": {"one empty line", "", "\n", 0, []string{"1+0 +"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, show(textdiff.Hunks(c.before, c.after, c.context)), c.reason)
		})
	}
}

// apply makes of a text what the hunks say, and counts the lines that differ.
func apply(t *testing.T, before string, hunks []textdiff.Hunk) (after string, differing int) {
	t.Helper()
	lines := strings.Split(before, "\n")
	var out []string
	for _, h := range hunks {
		out, lines = append(out, lines[:h.Skipped]...), lines[h.Skipped:]
		for _, line := range h.Lines {
			if line.Sign != textdiff.Added {
				require.Equal(t, lines[0], line.Text)
				lines = lines[1:]
			}
			if line.Sign != textdiff.Removed {
				out = append(out, line.Text)
			}
			if line.Sign != textdiff.Same {
				differing++
			}
		}
	}
	return strings.Join(append(out, lines...), "\n"), differing
}

// common returns how many lines two texts have in common, by the definition.
func common(a, b []string) int {
	row := make([]int, len(b)+1)
	for _, line := range a {
		diagonal := 0
		for j, other := range b {
			best := max(row[j], row[j+1])
			if line == other {
				best = diagonal + 1
			}
			diagonal, row[j+1] = row[j+1], best
		}
	}
	return row[len(b)]
}

// Whatever the texts, the hunks lead from one to the other, and there is no
// shorter way.
func TestHunksOfAnyTexts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	text := func(letters int) string {
		var b strings.Builder
		for range random.IntN(12) {
			fmt.Fprintf(&b, "%c\n", 'a'+random.IntN(letters))
		}
		return b.String()
	}
	for range budget.Runs(5000) {
		letters := 1 + random.IntN(6)
		before, after := text(letters), text(letters)
		hunks := textdiff.Hunks(before, after, random.IntN(4))
		got, differing := apply(t, before, hunks)
		require.Equal(t, after, got, "from %q", before)
		a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
		require.Equal(t, len(a)+len(b)-2*common(a, b), differing, "from %q to %q", before, after)
	}
}

// Texts that are long, or have little in common, cost little and are told apart
// all the same.
func TestHunksOfLargeTexts(t *testing.T) {
	t.Parallel()
	lines := func(n int, line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i) + "\n")
		}
		return b.String()
	}
	plain := func(i int) string { return fmt.Sprint("line ", i) }
	long := strings.Repeat("x", 1<<20)
	cases := map[string]struct {
		reason        string
		before, after string
		hunks         int
	}{
		"few differ": {
			"a file of a megabyte is no reason for one hunk", lines(100_000, plain),
			lines(100_000, func(i int) string {
				if i == 7 || i == 99_000 {
					return "another"
				}
				return plain(i)
			}), 2,
		},
		"long lines":    {"a line is compared by its number", lines(20, func(i int) string { return long + plain(i%7) }), lines(20, func(i int) string { return long + plain(i%5) }), 3},
		"nothing alike": {"the whole is one place", lines(50_000, plain), lines(50_000, func(i int) string { return "other " + plain(i) }), 1},
		"many differ":   {"from the first to the last that differs is one place", lines(50_000, plain), lines(50_000, func(i int) string { return plain(i - i%2) }), 1},
		"many the same": {"lines that repeat are no trouble", lines(50_000, func(int) string { return "same" }), lines(49_500, func(int) string { return "same" }), 1},
		"few, among the same": {
			"lines that repeat are no trouble", lines(50_000, func(i int) string { return fmt.Sprint(i % 2) }),
			lines(50_000, func(i int) string { return fmt.Sprint((i + 1) % 2) }), 2,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hunks := textdiff.Hunks(c.before, c.after, 1)
			got, _ := apply(t, c.before, hunks)
			same := got == c.after // require.Equal would print them
			require.True(t, same, c.reason)
			count := len(hunks)
			require.Equal(t, c.hunks, count, c.reason)
		})
	}
}
