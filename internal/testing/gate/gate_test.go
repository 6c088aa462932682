package gate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompare(t *testing.T) {
	table := Table{{"cold allocations", 1000}, {"cold requests", 5}, {"restart requests", 0}, {"lines of a package", 100}}
	margin := func(name string) float64 {
		if name == "lines of a package" {
			return Unchecked
		}
		return 0.03
	}
	measured := func(allocations, requests, restart, lines float64) Table {
		return Table{{"cold allocations", allocations}, {"cold requests", requests}, {"restart requests", restart}, {"lines of a package", lines}}
	}
	cases := map[string]struct {
		reason   string
		measured Table
		want     []string
	}{
		"Equal":        {"Nothing has changed.", table, nil},
		"WithinMargin": {"What a measurement varies by passes, up and down.", measured(1030, 5, 0, 100), nil},
		"FellLittle":   {"A small gain needs no new table.", measured(970, 5, 0, 100), nil},
		"Grown": {"More than the margin is a regression.", measured(1031, 5, 0, 100),
			[]string{"cold allocations: 1031, and 1000 in the table: has grown by 3.1 % (3 % may pass)"}},
		"OneMore": {"A whole number that grows by one is told in the same way.", measured(1000, 6, 0, 100),
			[]string{"cold requests: 6, and 5 in the table: has grown by 20 % (3 % may pass)"}},
		"FromZero": {"Of nothing there is no share: anything is too much.", measured(1000, 5, 0.1, 100),
			[]string{"restart requests: 0.1, and 0 in the table: has grown by 0.1 (3 % may pass)"}},
		"Fallen": {"A gain that isn't recorded would let as much growth pass later.", measured(969, 5, 0, 100),
			[]string{"cold allocations: 969, and 1000 in the table: the table is stale"}},
		"Unchecked": {"Figures without a margin only tell where others have changed.", measured(1000, 5, 0, 1000), nil},
		"New": {"What isn't in the table has no bound.", append(measured(1000, 5, 0, 100), Figure{"spec allocations", 7}),
			[]string{"spec allocations: 7 is new"}},
		"NewUnchecked": {"A new package needs none.", Table{{"cold allocations", 1000}, {"cold requests", 5}, {"restart requests", 0}}, nil},
		"Gone": {"A figure that isn't measured any more isn't held by anything.", Table{{"cold requests", 5}, {"restart requests", 0}},
			[]string{"cold allocations: 1000 in the table, and there is none: the table is stale"}},
		"All": {"Every problem is told.", measured(2000, 4, 0, 100), []string{
			"cold allocations: 2000, and 1000 in the table: has grown by 100 % (3 % may pass)",
			"cold requests: 4, and 5 in the table: the table is stale",
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, table.Compare(tc.measured, margin), tc.reason)
		})
	}
}

func TestChanged(t *testing.T) {
	table := Table{{"lines a", 100}, {"lines b", 50}}
	require.Equal(t, []string{"lines a: 100 → 101", "lines c: new: 7"}, table.Changed(Table{{"lines a", 101}, {"lines b", 50}, {"lines c", 7}}))
}

func TestReadAndWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table.txt")
	table := Table{{"cold allocations", 1873.5}, {"lines internal/engine/plan", 5172}}
	require.NoError(t, table.Write(file, "# What this is.\n\n"))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "# What this is.\n\ncold allocations               1873.5\nlines internal/engine/plan       5172\n", string(text))
	read, err := Read(file)
	require.NoError(t, err)
	require.Equal(t, table, read)
}

func TestReadRefuses(t *testing.T) {
	cases := map[string]struct{ reason, text, want string }{
		"NoNumber": {"A conflict of a merge must not be read as a table.", "<<<<<<< HEAD\n", "is no name and number"},
		"NoName":   {"A number belongs to something.", "12\n", "is no name and number"},
		"Twice":    {"Two figures of a name contradict each other.", "a 1\na 2\n", `"a" is there twice`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "table.txt")
			require.NoError(t, os.WriteFile(file, []byte(tc.text), 0o600))
			_, err := Read(file)
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
	_, err := Read(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
