package merge

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

const (
	parsedSets = 64      // how many sets a ParsedFieldSets keeps
	maxParsed  = 4 << 10 // the length of the longest text that it keeps, in bytes
)

// A ParsedFieldSets parses the texts of FieldSets, and keeps some sets: the children
// of most parents set the same fields. It is safe for concurrent use.
type ParsedFieldSets struct {
	seed  maphash.Seed
	slots [parsedSets]atomic.Pointer[parsedFieldSet]
}

// A parsedFieldSet is a set with its text.
type parsedFieldSet struct {
	text string
	set  *FieldSet
}

// NewParsedFieldSets returns one that keeps nothing yet.
func NewParsedFieldSets() *ParsedFieldSets { return &ParsedFieldSets{seed: maphash.MakeSeed()} }

// Parse returns what ParseFieldSet returns for the text.
func (p *ParsedFieldSets) Parse(text string) (*FieldSet, error) {
	if len(text) > maxParsed {
		return ParseFieldSet(text)
	}
	slot := &p.slots[maphash.String(p.seed, text)%parsedSets]
	if kept := slot.Load(); kept != nil && kept.text == text {
		return kept.set, nil
	}
	text = strings.Clone(text) // it may be part of an object
	set, err := ParseFieldSet(text)
	if err != nil {
		return nil, err
	}
	slot.Store(&parsedFieldSet{text: text, set: set})
	return set, nil
}
