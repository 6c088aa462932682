package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// maxDepth is how deep values may be nested, as in encoding/json.
const maxDepth = 10000

// A span is a range of bytes. Since nothing of interest begins a document, a
// span that ends at 0 was not found.
type span struct{ start, end int }

func (s span) found() bool { return s.end > 0 }

// A layout is where the parts of an object are that a Resource needs.
type layout struct {
	apiVersion, kind, metadata span // values; the last one counts, as in encoding/json
	managedFields              span // the member of metadata, with one of its commas
	spaces                     bool // between tokens
	duplicates                 bool // of metadata or managedFields
}

// A scanner validates JSON as encoding/json does, and finds its layout.
type scanner struct {
	src []byte
	pos int
	layout
}

// compact validates src as a JSON object and copies it without spaces and
// metadata.managedFields. Bytes that are not UTF-8 become U+FFFD, as in
// encoding/json. Errors name an offset, never content, which may be secret.
func compact(src []byte) (string, layout, error) {
	src = bytes.Trim(src, " \t\r\n")
	if !utf8.Valid(src) {
		src = []byte(string([]rune(string(src))))
	}
	s, err := scan(src)
	if err != nil {
		return "", layout{}, err
	}
	if s.spaces || s.duplicates {
		if src, err = regular(src, s.duplicates); err != nil {
			return "", layout{}, err
		}
		if s, err = scan(src); err != nil {
			return "", layout{}, err
		}
	}
	text, l := s.cut()
	return text, l, nil
}

// regular returns valid JSON without spaces, and without the duplicates that
// scan reports.
func regular(src []byte, duplicates bool) ([]byte, error) {
	if duplicates {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(src, &object); err != nil {
			return nil, err
		}
		var metadata map[string]json.RawMessage
		if err := json.Unmarshal(object["metadata"], &metadata); err == nil && metadata != nil {
			delete(metadata, "managedFields")
			raw, err := json.Marshal(metadata)
			if err != nil {
				return nil, err
			}
			object["metadata"] = raw
		}
		return json.Marshal(object)
	}
	var out bytes.Buffer
	out.Grow(len(src))
	err := json.Compact(&out, src)
	return out.Bytes(), err
}

// cut copies the document without managedFields.
func (s *scanner) cut() (string, layout) {
	l := s.layout
	if !l.managedFields.found() {
		return string(s.src), l
	}
	head, tail := s.src[:l.managedFields.start], s.src[l.managedFields.end:]
	moved := l.managedFields.end - l.managedFields.start
	for _, part := range []*span{&l.apiVersion, &l.kind, &l.metadata} {
		if part.start > l.managedFields.start {
			part.start -= moved
		}
		if part.end > l.managedFields.start {
			part.end -= moved
		}
	}
	text := make([]byte, 0, len(head)+len(tail))
	text = append(append(text, head...), tail...)
	return string(text), l
}

func scan(src []byte) (*scanner, error) {
	s := &scanner{src: src}
	if len(src) == 0 {
		return s, errors.New("no JSON: there are no bytes")
	}
	if src[0] != '{' {
		if err := s.value(0); err != nil {
			return s, err
		}
		return s, errors.New("the JSON is not an object")
	}
	if err := s.document(); err != nil {
		return s, err
	}
	if s.pos < len(src) {
		return s, s.invalid("after the object")
	}
	return s, nil
}

// document scans the top level.
func (s *scanner) document() error {
	more, err := s.open('}')
	for more && err == nil {
		var key []byte
		if key, err = s.key(); err != nil {
			break
		}
		start := s.pos
		switch name := string(key); name {
		case "metadata":
			s.duplicates = s.duplicates || s.layout.metadata.found()
			err = s.metadata()
			s.layout.metadata = span{start, s.pos}
		case "apiVersion":
			err = s.value(1)
			s.apiVersion = span{start, s.pos}
		case "kind":
			err = s.value(1)
			s.kind = span{start, s.pos}
		default:
			err = s.value(1)
		}
		if err == nil {
			more, err = s.next('}')
		}
	}
	return err
}

// metadata scans the object's metadata. It is left to the reader of the
// metadata to refuse another kind of value.
func (s *scanner) metadata() error {
	if s.pos >= len(s.src) || s.src[s.pos] != '{' {
		return s.value(1)
	}
	more, err := s.open('}')
	first := true
	for more && err == nil {
		start := s.pos
		var key []byte
		if key, err = s.key(); err != nil {
			break
		}
		managed := string(key) == "managedFields"
		if err = s.value(2); err != nil {
			break
		}
		end := s.pos
		if more, err = s.next('}'); managed && err == nil {
			s.duplicates = s.duplicates || s.managedFields.found()
			switch {
			case !first:
				start-- // the comma before; there are no spaces if the span is used
			case more:
				end++
			}
			s.managedFields = span{start, end}
		}
		first = false
	}
	return err
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

// key consumes the key of a member and its colon.
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
	key := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		var text string
		if err := json.Unmarshal(quoted, &text); err != nil {
			return nil, err
		}
		key = []byte(text)
	}
	return key, nil
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
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch c := s.src[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < ' ':
			return s.invalid("in a string")
		}
	}
	return s.unexpectedEnd()
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
