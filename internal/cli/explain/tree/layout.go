package tree

import (
	"strings"
	"unicode/utf8"

	"github.com/roperator/roperator/internal/cli/terminal"
)

// A style is how a piece of text looks. Without colours all look alike.
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// A span is a piece of a line.
type span struct {
	text  string
	style style
}

// A node is an entry of the tree: its first line, the lines below it, and the entries below those.
type node struct {
	title []span
	lines []line
	nodes []node
}

// A line is one below the title of a node.
type line struct {
	indent int // columns
	spans  []span
}

// A printer prints nodes.
type printer struct {
	b      strings.Builder
	width  int // columns; 0: any number
	colour bool
}

// least is how many columns a text has, however deep in the tree it is.
const least = 24

// root prints a node that is below no other.
func (p *printer) root(n node) {
	p.text("", "", n.title)
	p.below("", n)
}

// below prints what is below the title of a node. prefix stands before each line.
func (p *printer) below(prefix string, n node) {
	bar := "  "
	if len(n.nodes) > 0 {
		bar = "│ "
	}
	for _, l := range n.lines {
		indent := strings.Repeat(" ", l.indent)
		p.text(prefix+bar+indent, prefix+bar+indent+"  ", l.spans)
	}
	for i, child := range n.nodes {
		branch, rest := "├─ ", "│  "
		if i == len(n.nodes)-1 {
			branch, rest = "└─ ", "   "
		}
		p.text(prefix+branch, prefix+rest+"  ", child.title)
		p.below(prefix+rest, child)
	}
}

// text prints words, in as many lines as they need. first stands before the first line, and next
// before the others.
func (p *printer) text(first, next string, spans []span) {
	p.b.WriteString(first)
	at := utf8.RuneCountInString(first)
	limit := p.width
	if limit > 0 {
		limit = max(limit, utf8.RuneCountInString(next)+least)
	}
	begun := false
	for _, s := range spans {
		for word := range strings.SplitSeq(terminal.Printable(s.text), " ") {
			n := utf8.RuneCountInString(word)
			switch {
			case n == 0:
				continue
			case begun && limit > 0 && at+1+n > limit:
				p.b.WriteString("\n" + next)
				at = utf8.RuneCountInString(next)
			case begun:
				p.b.WriteByte(' ')
				at++
			}
			p.word(word, s.style)
			at, begun = at+n, true
		}
	}
	p.b.WriteByte('\n')
}

func (p *printer) word(text string, s style) {
	if !p.colour || s == plain {
		p.b.WriteString(text)
		return
	}
	p.b.WriteString("\x1b[" + string(s) + "m" + text + "\x1b[0m")
}
