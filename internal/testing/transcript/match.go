package transcript

import (
	"regexp"
	"strings"
)

var (
	looking   = regexp.MustCompile(`^(kubectl (get|describe|events|logs)|cat|grep|tail|\S+ explain) `)
	age       = regexp.MustCompile(`^(\d+[dhms])+$`)
	duration  = regexp.MustCompile(`\b\d+(\.\d+)?(ms|s)\b`)
	timestamp = regexp.MustCompile(`\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`)
	repeated  = regexp.MustCompile(` \(x\d+ over [^)]*\)`) // of Events
	podHash   = regexp.MustCompile(`-[a-z0-9]{6,10}-[a-z0-9]{5}\b`)
	deleted   = regexp.MustCompile(`(?m)( deleted) from \S+ namespace$`) // from kubectl 1.34 on
)

// Looks says whether the command only looks, so that it may be repeated until
// its output is right.
func Looks(command string) bool { return looking.MatchString(command) }

// Matches compares what a command has printed with what a page shows. Any text
// matches an ellipsis; what differs from run to run, or from one version of
// kubectl to the next, doesn't count.
func Matches(want, got string) bool {
	pattern := regexp.QuoteMeta(normal(want))
	pattern = strings.ReplaceAll(pattern, "…", "(?s:.*?)")
	return regexp.MustCompile("^" + pattern + "$").MatchString(normal(got))
}

// normal replaces what doesn't count.
func normal(text string) string {
	text = timestamp.ReplaceAllString(text, "<time>")
	text = repeated.ReplaceAllString(text, "")
	text = podHash.ReplaceAllString(text, "-<hash>")
	text = deleted.ReplaceAllString(text, "$1")
	text = duration.ReplaceAllString(text, "<age>")
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		fields := strings.Fields(line)
		for j, field := range fields {
			if age.MatchString(field) {
				fields[j] = "<age>"
			}
		}
		lines[i] = strings.Join(fields, " ")
	}
	return strings.Join(lines, "\n")
}
