package client

import (
	"bytes"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// What is looked for in an object that isn't decoded, or not yet, is read where it stands, without a copy. Of a part of
// it only the beginning is known at first: to find its end takes reading it.

// A members reads the members of an object one after the other.
type members struct {
	name []byte // of the present one, as it is written between the quotes
	rest []byte // JSON, from the present one's value on, or from behind it once it was read
	read bool   // the present one's value was read
}

// membersOf returns the members of the object that text begins with. Of what is no object there are
// none, and of what is no JSON those before the mistake.
func membersOf(text []byte) members {
	at := skipSpaces(text, 0)
	if at == len(text) || text[at] != '{' {
		return members{read: true}
	}
	return members{rest: text[at+1:], read: true}
}

// next goes on to another one. It returns false if there is none.
func (m *members) next() bool {
	if !m.read {
		m.value()
	}
	name, at := stringAt(m.rest, skipComma(m.rest, 0))
	at = skipSpaces(m.rest, at)
	if at == len(m.rest) || m.rest[at] != ':' {
		return false
	}
	m.name, m.rest, m.read = name, m.rest[at+1:], false
	return true
}

// value returns the value of the present one, as it is written. It may be called once for each.
func (m *members) value() []byte {
	value, next := valueAt(m.rest, 0)
	m.rest, m.read = m.rest[next:], true
	return value
}

// find returns text from the value of a member of the object on that text begins with, nothing if there is
// no such member.
func find(text []byte, name string) []byte {
	for m := membersOf(text); m.next(); {
		if string(m.name) == name {
			return m.rest
		}
	}
	return nil
}

// items yields the items of the list that text begins with. Of what is no list there are none.
func items(text []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		at := skipSpaces(text, 0)
		if at == len(text) || text[at] != '[' {
			return
		}
		for at++; ; {
			var item []byte
			if item, at = valueAt(text, skipComma(text, at)); len(item) == 0 || !yield(item) {
				return
			}
		}
	}
}

// valueAt returns the value that begins at i, or behind spaces there, and the index behind it.
// It returns nothing if none begins there, or none ends.
func valueAt(text []byte, i int) (value []byte, next int) {
	begin := skipSpaces(text, i)
	depth := 0
	for i = begin; i < len(text); {
		switch text[i] {
		case '"':
			if _, i = stringAt(text, i); depth == 0 {
				return text[begin:i], i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return text[begin : i+1], i + 1
			}
			if depth < 0 {
				return text[begin:i], i
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 { // a number, true, false or null has ended
				return text[begin:i], i
			}
		}
		i++
	}
	return nil, len(text)
}

// stringAt returns the string that begins at i, between its quotes, and the index behind it.
// It returns nothing if none begins there, or none ends.
func stringAt(text []byte, i int) (inner []byte, next int) {
	if i >= len(text) || text[i] != '"' {
		return nil, len(text)
	}
	for end := i + 1; ; end++ {
		quote := bytes.IndexByte(text[end:], '"')
		if quote < 0 {
			return nil, len(text)
		}
		end += quote
		if !jsonvalue.Escaped(text[i+1 : end]) {
			return text[i+1 : end], end + 1
		}
	}
}

// skipComma returns the index of what stands at i, without spaces and one comma before it.
func skipComma(text []byte, i int) int {
	if i = skipSpaces(text, i); i < len(text) && text[i] == ',' {
		i = skipSpaces(text, i+1)
	}
	return i
}

// skipSpaces returns the index of the first byte from i on that is no space.
func skipSpaces(text []byte, i int) int {
	for ; i < len(text); i++ {
		if c := text[i]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			break
		}
	}
	return i
}
