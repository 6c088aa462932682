package observe

import "unicode/utf8"

// Shorten returns a text of at most limit bytes: a longer one is cut between two
// characters and ends with "…". limit must be at least 3.
func Shorten(text string, limit int) string {
	const more = "…"
	if len(text) <= limit {
		return text
	}
	cut := limit - len(more)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}
