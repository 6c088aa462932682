package jsonvalue

import "strings"

// Skip returns the index behind the value or the key that begins at i. text must be
// valid JSON without spaces.
func Skip(text string, i int) int {
	depth := 0
	for ; ; i++ {
		switch text[i] {
		case '"':
			i = skipString(text, i) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':':
			continue
		default:
			for i+1 < len(text) && !isDelimiter(text[i+1]) {
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// skipString returns the index behind the string that begins at i.
func skipString(text string, i int) int {
	for i++; ; i++ {
		i += strings.IndexByte(text[i:], '"')
		if !Escaped(text[:i]) {
			return i + 1
		}
	}
}
