// Package core is counted: 23 lines of code, two of them within a literal.
package core

import "sync/atomic"

// Small isn't held.
type Small struct{ a, b int }

// Large is held.
type Large struct {
	Small

	a, b, c, d, e int
	f, g          bool
	h             atomic.Bool

	// A comment is no line of code.
	mu struct {
		a, b, c, d, e, f, g, h, i, j int
		k, l, m, n, o                bool
	}

	i, j, k, l, m string // 15 fields with this line
}

// text has two lines.
const text = `one
two`

func (l *Large) sum() int {
	return l.a + l.b

	/* neither is
	   this */
}

func (s *Small) zero() {
	s.a = 0
	s.b = 0
}
