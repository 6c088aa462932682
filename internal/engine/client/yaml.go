package client

import (
	"fmt"
	"unicode/utf8"
)

// AppliedBodyOf returns the JSON of an object, as a server-side apply carries it. The API server reads that as YAML, which rejects some
// characters that JSON allows, and changes others without a word. They are escaped.
func AppliedBodyOf(object any) ([]byte, error) {
	body, err := BodyOf(object)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(body); {
		r, size := utf8.DecodeRune(body[i:])
		if isOddInYAML(r) {
			return escapeForYAML(body, i), nil
		}
		i += size
	}
	return body, nil
}

// escapeForYAML escapes the odd characters from a position on. In JSON they are within strings.
func escapeForYAML(body []byte, from int) []byte {
	out := append(make([]byte, 0, len(body)+len(body)/8), body[:from]...)
	for i := from; i < len(body); {
		r, size := utf8.DecodeRune(body[i:])
		if isOddInYAML(r) {
			out = fmt.Appendf(out, "\\u%04x", r)
		} else {
			out = append(out, body[i:i+size]...)
		}
		i += size
	}
	return out
}

// isOddInYAML reports whether YAML doesn't print a character, or takes it for a line break or a byte order mark.
func isOddInYAML(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff
}
