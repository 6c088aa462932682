// Package gate compares measured figures with those of a table that is checked in:
//
//	table, err := gate.Read("allocations.txt")
//	for _, problem := range table.Compare(measured, margin) {
//		fmt.Println(problem)
//	}
//
// A figure that has grown by more than its margin is a regression. A figure that has fallen by more than its margin
// makes the table stale: a later growth up to the old figure would pass. [Table.Write] writes the table anew.
//
// A table is text with a figure per line, so that git shows what a commit changes in it. Lines that begin with # are comments.
//
// The package has no goroutines and imports nothing of this module.
package gate

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Unchecked is the margin of a figure that only explains other figures.
const Unchecked = -1

// A Figure is a number with a name, which may contain spaces.
type Figure struct {
	Name  string
	Value float64
}

// A Table is figures in the order in which they are written.
type Table []Figure

// Read reads a table.
func Read(file string) (Table, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	var t Table
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		name := strings.Join(fields[:len(fields)-1], " ")
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		switch _, twice := t.find(name); {
		case err != nil || name == "":
			return nil, fmt.Errorf("table %s: %q is no name and number", file, line)
		case twice:
			return nil, fmt.Errorf("table %s: %q is there twice", file, name)
		}
		t = append(t, Figure{name, value})
	}
	return t, nil
}

// Write writes the table, below a comment, in which each line begins with #.
func (t Table) Write(file, comment string) error {
	longest := 0
	for _, f := range t {
		longest = max(longest, len(f.Name))
	}
	var out bytes.Buffer
	out.WriteString(comment)
	for _, f := range t {
		fmt.Fprintf(&out, "%-*s %10s\n", longest, f.Name, number(f.Value))
	}
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	return nil
}

// number returns the shortest text of a value.
func number(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

func (t Table) find(name string) (float64, bool) {
	i := slices.IndexFunc(t, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return 0, false
	}
	return t[i].Value, true
}

// Compare returns a line for each figure that differs from the table by more than its margin, a share of the figure in
// the table, and for each checked figure that only one of both has. margin may return Unchecked.
func (t Table) Compare(measured Table, margin func(name string) float64) (problems []string) {
	for _, f := range measured {
		before, known := t.find(f.Name)
		allowed := margin(f.Name)
		switch {
		case allowed < 0:
		case !known:
			problems = append(problems, fmt.Sprintf("%s: %s is new", f.Name, number(f.Value)))
		case f.Value > before*(1+allowed):
			problems = append(problems, fmt.Sprintf("%s: %s, and %s in the table: has grown by %s (%s may pass)", f.Name, number(f.Value), number(before), share(f.Value, before), percent(allowed)))
		case f.Value < before*(1-allowed):
			problems = append(problems, fmt.Sprintf("%s: %s, and %s in the table: the table is stale", f.Name, number(f.Value), number(before)))
		}
	}
	for _, f := range t {
		if _, there := measured.find(f.Name); !there && margin(f.Name) >= 0 {
			problems = append(problems, fmt.Sprintf("%s: %s in the table, and there is none: the table is stale", f.Name, number(f.Value)))
		}
	}
	return problems
}

// Changed returns a line for each figure that differs from the table at all, whatever its margin.
func (t Table) Changed(measured Table) (lines []string) {
	for _, f := range measured {
		before, known := t.find(f.Name)
		switch {
		case !known:
			lines = append(lines, fmt.Sprintf("%s: new: %s", f.Name, number(f.Value)))
		case before != f.Value:
			lines = append(lines, fmt.Sprintf("%s: %s → %s", f.Name, number(before), number(f.Value)))
		}
	}
	return lines
}

func share(value, before float64) string {
	if before == 0 {
		return number(value)
	}
	return percent(value/before - 1)
}

func percent(share float64) string { return number(math.Round(share*1000)/10) + " %" }
