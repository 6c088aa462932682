package planprint

import (
	"fmt"
	"io"
	"strings"
)

const (
	// MaxMarkdown bounds, in bytes, what Markdown prints: a comment on GitHub has at most as
	// many characters.
	MaxMarkdown = 65_536
	// maxAlarms bounds how many failing changes the head of a comment lists.
	maxAlarms = 10
	// roomForEnd is what the end of a comment takes at most, in bytes.
	roomForEnd = 1024
)

// Markdown prints a report as the comment of a pull request, at most MaxMarkdown bytes: what
// there is in all, the changes that fail the plan, and the rest behind a fold. It begins with
// an HTML comment that names the operators, by which a workflow finds the comment again.
func Markdown(w io.Writer, r Report) error {
	blocks, err := r.blocks()
	if err != nil {
		return err
	}
	var b strings.Builder
	r.head(&b)
	if len(blocks) > 0 {
		fence := strings.Repeat("`", max(3, longestRun(blocks)+1))
		b.WriteString("<details><summary>Show the changes</summary>\n\n" + fence + "diff\n")
		left := writeWithin(&b, blocks, MaxMarkdown-b.Len()-len(fence)-roomForEnd)
		b.WriteString(fence + "\n\n</details>\n")
		if left > 0 {
			fmt.Fprintf(&b, "\n%s left out, for the length of a comment: `plan` in a terminal shows all.\n", countedAre(left, "change"))
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// head writes what is above the fold.
func (r *Report) head(b *strings.Builder) {
	var names []string
	for _, p := range r.Plans {
		names = append(names, p.Operator)
	}
	fmt.Fprintf(b, "<!-- plan of %s -->\n", strings.ReplaceAll(strings.Join(names, ", "), "--", "- -"))
	for _, p := range r.Plans {
		fmt.Fprintf(b, "**Plan of %s**: %s\n\n", codeSpan(p.Operator), summary(p.Changes))
	}
	listed, failing := 0, 0
	for _, p := range r.Plans {
		for _, c := range p.Changes {
			if !r.fails(c) {
				continue
			}
			if failing++; failing <= maxAlarms {
				listed++
				fmt.Fprintf(b, "- :warning: %s\n", codeSpan(shortened(headline(p.Parent, c))))
			}
		}
	}
	if failing > listed {
		fmt.Fprintf(b, "- :warning: and %d more\n", failing-listed)
	}
	if failing > 0 {
		b.WriteByte('\n')
	}
	for _, note := range r.notes() {
		b.WriteString(note + "\n\n")
	}
}

// maxHeadline bounds a headline outside of the fold, in bytes.
const maxHeadline = 500

// shortened returns a headline that isn't too long.
func shortened(text string) string {
	if len(text) <= maxHeadline {
		return text
	}
	return strings.ToValidUTF8(text[:maxHeadline], "") + "…"
}

// blocks returns each change as the lines of a diff.
func (r *Report) blocks() ([]string, error) {
	var out []string
	for _, p := range r.Plans {
		for _, c := range p.Changes {
			var b strings.Builder
			if err := printChange(&b, p.Parent, c); err != nil {
				return nil, err
			}
			out = append(out, strings.ReplaceAll(b.String(), "\n  ", "\n")+"\n") // a diff has its signs in the first column
		}
	}
	return out, nil
}

// writeWithin writes as many blocks as fit into size bytes, the last one perhaps only its
// first lines. It returns how many blocks are left out.
func writeWithin(b *strings.Builder, blocks []string, size int) (left int) {
	for i, block := range blocks {
		if len(block) <= size {
			b.WriteString(block)
			size -= len(block)
			continue
		}
		cut := strings.LastIndexByte(block[:max(0, size)], '\n')
		if cut < 0 {
			return len(blocks) - i
		}
		rest := strings.Count(block[cut+1:], "\n")
		fmt.Fprintf(b, "%s\n… %s\n", block[:cut], Counted(rest, "more line"))
		return len(blocks) - i - 1
	}
	return 0
}

// countedAre is Counted with the verb: "1 change is", "2 changes are".
func countedAre(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return Counted(n, what) + " are"
}

// codeSpan returns a text as inline code, whatever backticks it has. The text must have one
// line.
func codeSpan(text string) string {
	fence := strings.Repeat("`", longestRun([]string{text})+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// longestRun returns the length of the longest run of backticks.
func longestRun(texts []string) int {
	longest := 0
	for _, text := range texts {
		run := 0
		for i := range len(text) {
			if text[i] != '`' {
				run = 0
				continue
			}
			run++
			longest = max(longest, run)
		}
	}
	return longest
}
