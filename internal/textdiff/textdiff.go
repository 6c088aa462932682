// Package textdiff tells in which lines two texts differ:
//
//	for _, hunk := range textdiff.Hunks("a\nb\nc\n", "a\nB\nc\n", 1) {
//		for _, line := range hunk.Lines {
//			fmt.Println(line.Sign, line.Text)
//		}
//	}
//
// The shortest difference of two texts takes time and memory that grow with
// the number of lines that differ, not with their length. Texts in which more
// than maxEdits lines differ are told apart coarsely instead: all lines between
// the first and the last that differ count as changed.
package textdiff

import "strings"

// maxEdits is how many lines, removed and added, the shortest difference may
// have. Its memory grows with the square: 1000 lines take 8 MB.
const maxEdits = 1000

// The signs of a Line.
const (
	Same    = " "
	Removed = "-"
	Added   = "+"
)

// A Line is a line of a Hunk, without its end.
type Line struct {
	Sign string // Same, Removed or Added
	Text string
}

// A Hunk is a place in which two texts differ, with unchanged lines around it.
type Hunk struct {
	// Line is the number of the first line that differs, counted from 1 in the
	// text before. For lines that are only added it is that of the line that
	// they push down.
	Line int
	// Skipped is how many unchanged lines lie between this hunk and the one
	// before, or the beginning of the text.
	Skipped int
	// Lines has, where lines were replaced, those removed before those added.
	Lines []Line
}

// Hunks returns how to make one text the other, in the order of the lines:
// nothing if they are the same. Around what differs there are up to context
// unchanged lines; places that these would join are one Hunk. Where only one
// text ends without a line break, a line of its own says so.
func Hunks(before, after string, context int) []Hunk {
	a, b := split(before), split(after)
	var hunks []Hunk
	end := 0 // of the hunk before, in a
	all := changes(a, b)
	for i, c := range all {
		from := max(c.from-context, end)
		if i == 0 || from > end {
			hunks = append(hunks, Hunk{Line: c.from + 1, Skipped: from - end})
		}
		h := &hunks[len(hunks)-1]
		h.add(Same, a[from:c.from])
		h.add(Removed, a[c.from:c.to])
		h.add(Added, b[c.newFrom:c.newTo])
		next := len(a)
		if i+1 < len(all) {
			next = all[i+1].from
		}
		end = min(c.to+context, next)
		h.add(Same, a[c.to:end])
	}
	return hunks
}

func (h *Hunk) add(sign string, texts []string) {
	for _, text := range texts {
		h.Lines = append(h.Lines, Line{sign, text})
	}
}

// split returns the lines of a text, of which the last tells if it has no end.
func split(text string) []string {
	lines := strings.Split(text, "\n")
	last := len(lines) - 1
	if lines[last] == "" {
		return lines[:last]
	}
	return append(lines, "(no newline at the end)")
}

// A change says that a[from:to] has become b[newFrom:newTo].
type change struct{ from, to, newFrom, newTo int }

// changes returns how to make a text b, in order, with unchanged lines between
// any two.
func changes(a, b []string) []change {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	whole := change{head, len(a) - tail, head, len(b) - tail}
	switch {
	case whole.from == whole.to && whole.newFrom == whole.newTo:
		return nil
	case whole.from == whole.to || whole.newFrom == whole.newTo:
		return []change{whole}
	}
	removed, added, ok := edits(numbered(a[head:whole.to], b[head:whole.newTo]))
	if !ok {
		return []change{whole}
	}
	var out []change
	for i, j := 0, 0; i < len(removed) || j < len(added); i, j = i+1, j+1 {
		c := change{from: i, newFrom: j}
		for i < len(removed) && removed[i] {
			i++
		}
		for j < len(added) && added[j] {
			j++
		}
		if i > c.from || j > c.newFrom {
			out = append(out, change{head + c.from, head + i, head + c.newFrom, head + j})
		}
	}
	return out
}

// numbered returns the same number for the same line, so that a line is read
// once, however often it is compared.
func numbered(a, b []string) (inA, inB []int) {
	numbers := map[string]int{}
	number := func(lines []string) []int {
		out := make([]int, len(lines))
		for i, line := range lines {
			if _, ok := numbers[line]; !ok {
				numbers[line] = len(numbers)
			}
			out[i] = numbers[line]
		}
		return out
	}
	return number(a), number(b)
}

// edits returns for each line of a whether it is removed, and for each of b
// whether it is added, of as few lines as possible; false if these are more
// than maxEdits. It is the greedy algorithm of E. Myers, "An O(ND) Difference
// Algorithm and Its Variations" (1986).
func edits(a, b []int) (removed, added []bool, ok bool) {
	limit := min(len(a)+len(b), maxEdits)
	// reach[limit+k] is how many lines of a the best script so far gets past
	// on the diagonal k: where it is i lines into a, it is i-k lines into b.
	reach := make([]int, 2*limit+2)
	var history [][]int // history[d] is reach[limit-d:limit+d+1] after d edits
	for d := range limit + 1 {
		for k := -d; k <= d; k += 2 {
			i := reach[limit+k+1]
			if !adds(reach, limit, d, k) {
				i = reach[limit+k-1] + 1
			}
			for i < len(a) && i-k < len(b) && a[i] == b[i-k] {
				i++
			}
			reach[limit+k] = i
			if i >= len(a) && i-k >= len(b) {
				removed, added = retrace(history, len(a), len(b))
				return removed, added, true
			}
		}
		history = append(history, append([]int(nil), reach[limit-d:limit+d+1]...))
	}
	return nil, nil, false
}

// adds says whether the d-th edit of the best script that ends on the diagonal
// k adds a line; otherwise it removes one. reach[zero] is the diagonal 0.
func adds(reach []int, zero, d, k int) bool {
	return k == -d || k != d && reach[zero+k-1] < reach[zero+k+1]
}

// retrace goes back from the ends of both texts to their beginnings.
func retrace(history [][]int, i, j int) (removed, added []bool) {
	removed, added = make([]bool, i), make([]bool, j)
	for d := len(history); d > 0; d-- {
		reach, zero, k := history[d-1], d-1, i-j
		if adds(reach, zero, d, k) {
			i = reach[zero+k+1]
			j = i - k - 1
			added[j] = true
		} else {
			i = reach[zero+k-1]
			j = i - k + 1
			removed[i] = true
		}
	}
	return removed, added
}
