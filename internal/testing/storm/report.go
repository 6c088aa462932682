package storm

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// text tells of a finding.
func (f *finding) text(test string) string {
	var out strings.Builder
	if f.seed == 0 {
		fmt.Fprintf(&out, "without any fault:\n")
	} else {
		fmt.Fprintf(&out, "seed %d:\n", f.seed)
	}
	for _, v := range f.violations {
		fmt.Fprintf(&out, "  %s\n", v.Text)
	}
	if f.seed > 0 {
		is, was := f.outcome.script, f.began
		if is.disturbances() == 0 {
			fmt.Fprintf(&out, "It needs no fault, only that what happens comes at these times. If the way may decide where the operator arrives, say so by Scenario.Ignore or IgnoreType.\n")
		}
		fmt.Fprintf(&out, "What has happened (%s left of %s, %s of %s):\n", counted(is.disturbances(), "fault"), counted(was.disturbances(), "fault"), counted(len(is.Order), "step"), counted(len(was.Order), "step"))
	} else {
		fmt.Fprintf(&out, "What has happened:\n")
	}
	for _, line := range shorten(f.outcome.history) {
		fmt.Fprintf(&out, "  %s\n", line)
	}
	if f.seed > 0 {
		fmt.Fprintf(&out, "Once more: %s=%d go test -run %s", seedEnv, f.seed, pattern(test))
	}
	return strings.TrimRight(out.String(), "\n")
}

// pattern returns what go test is told to run a test alone, as a shell wants it.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return "'" + strings.ReplaceAll(strings.Join(parts, "/"), "'", `'\''`) + "'"
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// disturbances is how many faults a script has that do more than delay.
func (sc script) disturbances() int { return len(sc.Acts) + len(sc.Faults) }

// maxLines is how many lines of a history are told.
const maxLines = 60

// shorten returns the lines of a history, without those that tell least.
func shorten(history []event) (lines []string) {
	history = collapse(history)
	drop := map[int]bool{}
	for weight := 0; weight < 3 && len(history)-len(drop) > maxLines; weight++ {
		for i, e := range history {
			if e.weight == weight && len(history)-len(drop) > maxLines {
				drop[i] = true
			}
		}
	}
	for i, e := range history {
		if drop[i] {
			continue
		}
		who := ""
		if e.process != "" {
			who = e.process + ": "
		}
		lines = append(lines, fmt.Sprintf("%10s  %s%s", e.at.Round(time.Millisecond), who, e.text))
	}
	if n := len(drop); n > 0 {
		lines = append(lines, fmt.Sprintf("and %s that tell less", counted(n, "event")))
	}
	return lines
}

// collapse makes one event of several that follow each other and say the same.
func collapse(history []event) (out []event) {
	for i := 0; i < len(history); {
		n := i + 1
		for n < len(history) && history[n].text == history[i].text && history[n].process == history[i].process {
			n++
		}
		e := history[i]
		if n > i+1 {
			e.text += fmt.Sprintf(" (%d times until %s)", n-i, history[n-1].at.Round(time.Millisecond))
		}
		out, i = append(out, e), n
	}
	return out
}
