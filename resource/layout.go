package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

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

// compact validates src as a JSON object and copies it without spaces and
// metadata.managedFields. Bytes that are not UTF-8 become U+FFFD, as in
// encoding/json. Errors name an offset, never content, which may be secret.
func compact(src []byte) (string, layout, error) {
	src = bytes.Trim(src, " \t\r\n")
	if !utf8.Valid(src) {
		src = []byte(string([]rune(string(src))))
	}
	s := scanner{src: src}
	if err := s.scan(); err != nil {
		return "", layout{}, err
	}
	if s.spaces || s.duplicates {
		compacted, err := regular(src, s.duplicates)
		if err != nil {
			return "", layout{}, err
		}
		s = scanner{src: compacted}
		if err := s.scan(); err != nil {
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
	var text strings.Builder
	text.Grow(len(head) + len(tail))
	text.Write(head)
	text.Write(tail)
	return text.String(), l
}

// scan validates all of src.
func (s *scanner) scan() error {
	if len(s.src) == 0 {
		return errors.New("no JSON: there are no bytes")
	}
	if s.src[0] != '{' {
		if err := s.value(0); err != nil {
			return err
		}
		return errors.New("the JSON is not an object")
	}
	if err := s.document(); err != nil {
		return err
	}
	if s.pos < len(s.src) {
		return s.invalid("after the object")
	}
	return nil
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
		switch {
		case is(key, "metadata"):
			s.duplicates = s.duplicates || s.layout.metadata.found()
			err = s.metadata()
			s.layout.metadata = span{start, s.pos}
		case is(key, "apiVersion"):
			err = s.value(1)
			s.apiVersion = span{start, s.pos}
		case is(key, "kind"):
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
		managed := is(key, "managedFields")
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

// is says whether a quoted string has the given value.
func is(quoted []byte, value string) bool {
	inner := quoted[1 : len(quoted)-1]
	if string(inner) == value {
		return true
	}
	if bytes.IndexByte(inner, '\\') < 0 {
		return false
	}
	var text string
	return json.Unmarshal(quoted, &text) == nil && text == value
}
