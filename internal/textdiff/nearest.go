package textdiff

import "strings"

// Nearest returns the name that somebody who wrote wrong may have meant, empty if there is none.
func Nearest(wrong string, names []string) string {
	best, least := "", 1+max(1, len(wrong)/4)
	for _, name := range names {
		if strings.EqualFold(wrong, name) {
			return name
		}
		if d := distance(wrong, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns how many letters have to be put in, taken out or replaced to make a text
// another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
