package resource

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// maxDepth is how deep values may be nested, as in encoding/json.
const maxDepth = 10000

// A scanner validates JSON as encoding/json does, and finds its layout.
type scanner struct {
	src []byte
	pos int
	layout
}

// open consumes the bracket that begins an object or array, and says whether
// something is in it. An empty one is consumed whole.
func (s *scanner) open(end byte) (bool, error) {
	s.pos++
	s.space()
	if s.pos >= len(s.src) {
		return false, s.unexpectedEnd()
	}
	if s.src[s.pos] == end {
		s.pos++
		return false, nil
	}
	return true, nil
}

// next consumes what follows a member or item: a comma, with more to come, or
// the closing bracket.
func (s *scanner) next(end byte) (bool, error) {
	s.space()
	if s.pos >= len(s.src) {
		return false, s.unexpectedEnd()
	}
	switch s.src[s.pos] {
	case ',':
		s.pos++
		s.space()
		return true, nil
	case end:
		s.pos++
		return false, nil
	}
	return false, s.invalid("after a value")
}

// key consumes the key of a member and its colon. It returns the key as it is
// written, with its quotes.
func (s *scanner) key() ([]byte, error) {
	if s.pos >= len(s.src) {
		return nil, s.unexpectedEnd()
	}
	if s.src[s.pos] != '"' {
		return nil, s.invalid("where a key should be")
	}
	start := s.pos
	if err := s.str(); err != nil {
		return nil, err
	}
	quoted := s.src[start:s.pos]
	s.space()
	if s.pos >= len(s.src) {
		return nil, s.unexpectedEnd()
	}
	if s.src[s.pos] != ':' {
		return nil, s.invalid("after a key")
	}
	s.pos++
	s.space()
	return quoted, nil
}

// value consumes a value that is inside of depth others.
func (s *scanner) value(depth int) error {
	if s.pos >= len(s.src) {
		return s.unexpectedEnd()
	}
	switch c := s.src[s.pos]; c {
	case '"':
		return s.str()
	case '{':
		return s.object(depth + 1)
	case '[':
		return s.array(depth + 1)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || isDigit(c) {
			return s.number()
		}
		return s.invalid("where a value should be")
	}
}

func (s *scanner) object(depth int) error {
	if depth > maxDepth {
		return errors.New("invalid JSON: exceeded max depth")
	}
	more, err := s.open('}')
	for more && err == nil {
		if _, err = s.key(); err != nil {
			return err
		}
		if err = s.value(depth); err != nil {
			return err
		}
		more, err = s.next('}')
	}
	return err
}

func (s *scanner) array(depth int) error {
	if depth > maxDepth {
		return errors.New("invalid JSON: exceeded max depth")
	}
	more, err := s.open(']')
	for more && err == nil {
		if err = s.value(depth); err != nil {
			return err
		}
		more, err = s.next(']')
	}
	return err
}

func (s *scanner) literal(word string) error {
	for i := range len(word) {
		if s.pos >= len(s.src) {
			return s.unexpectedEnd()
		}
		if s.src[s.pos] != word[i] {
			return s.invalid("in " + word)
		}
		s.pos++
	}
	return nil
}

// str consumes a string with its quotes.
func (s *scanner) str() error {
	i := s.pos + 1
	for {
		i += plain(s.src[i:])
		s.pos = i
		if i >= len(s.src) {
			return s.unexpectedEnd()
		}
		switch s.src[i] {
		case '"':
			s.pos++
			return nil
		case '\\':
			if err := s.escape(); err != nil {
				return err
			}
			i = s.pos + 1
		default:
			return s.invalid("in a string")
		}
	}
}

// plain returns how many bytes at the beginning of b are neither a quote nor a
// backslash nor a control character. It looks at eight bytes at once.
func plain(b []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x80 * ones
	)
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		word := binary.LittleEndian.Uint64(b[n:])
		quote, backslash := word^('"'*ones), word^('\\'*ones)
		// The lowest high bit that is set marks the first byte which is 0 in
		// one of the two, or below ' ' in word.
		found := ((quote-ones)&^quote | (backslash-ones)&^backslash | (word-' '*ones)&^word) & highs
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for ; n < len(b); n++ {
		if c := b[n]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return n
}

// escape consumes an escape sequence but for its last byte.
func (s *scanner) escape() error {
	s.pos++
	if s.pos >= len(s.src) {
		return s.unexpectedEnd()
	}
	switch s.src[s.pos] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			s.pos++
			if s.pos >= len(s.src) {
				return s.unexpectedEnd()
			}
			if c := s.src[s.pos] | 0x20; !isDigit(s.src[s.pos]) && (c < 'a' || c > 'f') {
				return s.invalid("in a \\u escape")
			}
		}
		return nil
	}
	return s.invalid("in an escape")
}

func (s *scanner) number() error {
	if s.src[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.src) && s.src[s.pos] == '0' {
		s.pos++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.pos < len(s.src) && s.src[s.pos] == '.' {
		s.pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.pos < len(s.src) && s.src[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.src) && (s.src[s.pos] == '+' || s.src[s.pos] == '-') {
			s.pos++
		}
		return s.digits()
	}
	return nil
}

// digits consumes one or more digits.
func (s *scanner) digits() error {
	start := s.pos
	for s.pos < len(s.src) && isDigit(s.src[s.pos]) {
		s.pos++
	}
	switch {
	case s.pos > start:
		return nil
	case s.pos >= len(s.src):
		return s.unexpectedEnd()
	}
	return s.invalid("in a number")
}

// space consumes space.
func (s *scanner) space() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
			s.spaces = true
		default:
			return
		}
	}
}

func (s *scanner) invalid(where string) error {
	return fmt.Errorf("invalid JSON: unexpected character %s, at byte %d", where, s.pos)
}

func (s *scanner) unexpectedEnd() error {
	return errors.New("invalid JSON: unexpected end")
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
