package observe

import "unicode/utf8"

// Shorten cuts a text to at most limit bytes, between characters.
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
