package merge

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParseFieldSet reads what encode wrote. It returns an error for anything else,
// for texts of more than 256 KiB, and for ones that nest more deeply than
// newApplied does.
func ParseFieldSet(s string) (*FieldSet, error) {
	if len(s) > maxText {
		return nil, fmt.Errorf("applied: %d bytes, more than %d", len(s), maxText)
	}
	p := parser{rest: s, value: &FieldSet{}, whole: &FieldSet{kind: shapeWhole}}
	if s == "*" {
		return p.whole, nil
	}
	fields, err := p.fields(0)
	if err == nil && p.rest != "" {
		err = errors.New("end expected")
	}
	if err != nil {
		return nil, fmt.Errorf("applied: offset %d: %w", len(s)-len(p.rest), err)
	}
	return &FieldSet{kind: shapeObject, fields: fields}, nil
}

// An parser reads the text of an applied, of which the leaves are shared.
type parser struct {
	rest         string
	value, whole *FieldSet
}

func (p *parser) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *parser) expect(c byte) error {
	if !p.take(c) {
		return fmt.Errorf("%q expected", c)
	}
	return nil
}

// fields reads names and what is below them, up to what can't be a name.
func (p *parser) fields(depth int) (members, error) {
	var fields members
	if p.rest == "" || strings.IndexByte("}]>", p.rest[0]) >= 0 {
		return fields, nil
	}
	for {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		if len(fields) > 0 && fields[len(fields)-1].name >= name {
			return nil, fmt.Errorf("%q is out of order", name)
		}
		below, err := p.below(depth + 1)
		if err != nil {
			return nil, err
		}
		fields = append(fields, member{name, below})
		if !p.take(',') {
			return fields, nil
		}
	}
}

func (p *parser) name() (string, error) {
	end := 0
	for end < len(p.rest) && (p.rest[end] == '|' || isPlainByte(p.rest[end])) {
		end++
	}
	if end > 0 {
		name := p.rest[:end]
		p.rest = p.rest[end:]
		return name, nil
	}
	if p.rest == "" || p.rest[0] != '"' {
		return "", errors.New("name expected")
	}
	quoted, err := strconv.QuotedPrefix(p.rest)
	if err != nil {
		return "", fmt.Errorf("name: %w", err)
	}
	p.rest = p.rest[len(quoted):]
	return strconv.Unquote(quoted)
}

// below reads what follows a name.
func (p *parser) below(depth int) (*FieldSet, error) {
	var a *FieldSet
	var err error
	switch {
	case depth > maxDepth+1:
		return nil, errors.New("nested too deeply")
	case p.take('*'):
		return p.whole, nil
	case p.take('{'):
		a = &FieldSet{kind: shapeObject}
		if a.fields, err = p.fields(depth); err == nil {
			err = p.expect('}')
		}
	case p.take('<'):
		a = &FieldSet{kind: shapeSet}
		if a.fields, err = p.fields(depth); err == nil {
			err = p.expect('>')
		}
	case p.take('['):
		a, err = p.keyed(depth)
	case p.take('('):
		a, err = p.items(depth)
	default:
		a = p.value
	}
	return a, err
}

// keyed reads a keyed list from after its bracket.
func (p *parser) keyed(depth int) (*FieldSet, error) {
	a := &FieldSet{kind: shapeKeyed}
	if p.take(']') {
		return a, nil
	}
	keys, err := p.name()
	if err != nil {
		return nil, err
	}
	if err := p.expect(':'); err != nil {
		return nil, err
	}
	a.keys = strings.Split(keys, "|")
	if a.fields, err = p.fields(depth); err != nil {
		return nil, err
	}
	return a, p.expect(']')
}

// items reads a list compared whole from after its parenthesis.
func (p *parser) items(depth int) (*FieldSet, error) {
	a := &FieldSet{kind: shapeItems}
	for {
		item, err := p.below(depth + 1)
		if err != nil {
			return nil, err
		}
		a.items = append(a.items, item)
		if !p.take(',') {
			return a, p.expect(')')
		}
	}
}
