package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/gate"
)

const (
	source = "internal/engine/core/core.go"
	large1 = "internal/engine/core.Large"
)

func TestMeasure(t *testing.T) {
	table, err := measure("testdata/module")
	require.NoError(t, err)
	require.Equal(t, gate.Table{
		{Name: linesOfCore, Value: 23}, {Name: "lines internal/engine/core", Value: 23}, {Name: "lines shop", Value: 2},
		{Name: "fields " + large1, Value: 15}, {Name: "booleans " + large1, Value: 3},
		{Name: "fields " + large1 + ".mu", Value: 15}, {Name: "booleans " + large1 + ".mu", Value: 5},
	}, table, "tests, generated files, other modules and what is no product aren't counted")
}

// TestPlanted: what grows, or is smaller than the table says, fails.
func TestPlanted(t *testing.T) {
	lines := func(n int) func(string) string {
		return func(source string) string { return source + strings.Repeat("var _ = 0\n", n) }
	}
	replaced := func(before, after string) func(string) string {
		return func(source string) string { return strings.Replace(source, before, after, 1) }
	}
	structure := func(fields int) func(string) string {
		return func(source string) string {
			return source + fmt.Sprintf("type New struct{ a%s int }\n", strings.Repeat(", a", fields-1))
		}
	}
	cases := map[string]struct {
		reason string
		edit   func(source string) string
		want   string // in what is printed; empty: it passes
	}{
		"Nothing":      {"The table is of the same code.", func(source string) string { return source }, ""},
		"Comments":     {"What explains code is no code.", func(source string) string { return source + strings.Repeat("// A comment.\n\n", 100) }, ""},
		"FewLines":     {"1 % of 223 lines is two.", lines(202), ""},
		"Lines":        {"The core has grown by more than 1 %.", lines(203), "lines of internal/engine: 226, and 223 in the table: has grown by 1.3 % (1 % may pass)\n"},
		"LinesOfWhere": {"The package that has grown is named.", lines(203), "lines internal/engine/core: 223 → 226\n"},
		"FewerLines":   {"The table would let three lines in later.", lines(197), "lines of internal/engine: 220, and 223 in the table: the table is stale\n"},
		"Field":        {"A large struct has one field more.", replaced("i, j, k,", "i, j, p, k,"), "fields " + large1 + ": 16, and 15 in the table: has grown by 6.7 %"},
		"InnerField":   {"A struct within it doesn't hide a field.", replaced("a, b, c, d, e, f, g, h,", "a, b, c, d, e, f, g, p, h,"), "fields " + large1 + ".mu: 16, and 15 in the table: has grown"},
		"Boolean":      {"A field becomes a boolean.", replaced("a, b, c, d, e int", "a, b, c, d int; e bool"), "booleans " + large1 + ": 4, and 3 in the table: has grown"},
		"FewerBooleans": {
			"A boolean that has gone must not come back unnoticed.", replaced("atomic.Bool", "atomic.Int64"), "booleans " + large1 + ": 2, and 3 in the table: the table is stale\n",
		},
		"New":       {"A new struct is large.", structure(16), "fields internal/engine/core.New: 16 is new\n"},
		"NewSmall":  {"A new struct isn't large.", structure(14), ""},
		"Shrunk":    {"A struct isn't large any more.", replaced("\tSmall\n", ""), "fields " + large1 + ": 15 in the table, and there is none: the table is stale\n"},
		"Elsewhere": {"Lines outside of the core aren't held.", nil, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			require.NoError(t, os.CopyFS(root, os.DirFS("testdata/module")))
			write := func(file string, edit func(string) string) {
				text, err := os.ReadFile(filepath.Join(root, file))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(edit(string(text))), 0o600))
			}
			original, err := os.ReadFile(filepath.Join(root, source))
			require.NoError(t, err)
			write(source, lines(200)) // so that 1 % is something
			table := filepath.Join(root, "core.txt")
			require.NoError(t, run(root, table, true, nil))
			if tc.edit == nil {
				write("shop/shop.go", lines(100))
			} else {
				write(source, func(string) string {
					edited := tc.edit(string(original))
					if strings.Contains(edited, "var _") {
						return edited
					}
					return lines(200)(edited)
				})
			}
			var out bytes.Buffer
			err = run(root, table, false, &out)
			if tc.want == "" {
				require.NoError(t, err, "%s\n%s", tc.reason, out.String())
				return
			}
			require.ErrorContains(t, err, "make gates-update", tc.reason)
			require.Contains(t, out.String(), tc.want, tc.reason)
			require.NoError(t, run(root, table, true, nil))
			require.NoError(t, run(root, table, false, &out), "the table of what there is now")
		})
	}
}
