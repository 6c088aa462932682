package runner

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// decodeApplied reads what encode wrote. It returns an error for anything else,
// for texts of more than 256 KiB, and for ones that nest more deeply than
// newApplied does.
func decodeApplied(s string) (*applied, error) {
	if len(s) > maxAppliedText {
		return nil, fmt.Errorf("applied: %d bytes, more than %d", len(s), maxAppliedText)
	}
	p := appliedParser{rest: s, value: &applied{}, whole: &applied{kind: appliedWhole}}
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
	return &applied{kind: appliedObject, fields: fields}, nil
}

// An appliedParser reads the text of an applied, of which the leaves are shared.
type appliedParser struct {
	rest         string
	value, whole *applied
}

func (p *appliedParser) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *appliedParser) expect(c byte) error {
	if !p.take(c) {
		return fmt.Errorf("%q expected", c)
	}
	return nil
}

// fields reads names and what is below them, up to what can't be a name.
func (p *appliedParser) fields(depth int) (appliedFields, error) {
	var fields appliedFields
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
		fields = append(fields, appliedField{name, below})
		if !p.take(',') {
			return fields, nil
		}
	}
}

func (p *appliedParser) name() (string, error) {
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
func (p *appliedParser) below(depth int) (*applied, error) {
	var a *applied
	var err error
	switch {
	case depth > maxAppliedDepth+1:
		return nil, errors.New("nested too deeply")
	case p.take('*'):
		return p.whole, nil
	case p.take('{'):
		a = &applied{kind: appliedObject}
		if a.fields, err = p.fields(depth); err == nil {
			err = p.expect('}')
		}
	case p.take('<'):
		a = &applied{kind: appliedSet}
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
func (p *appliedParser) keyed(depth int) (*applied, error) {
	a := &applied{kind: appliedKeyed}
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
func (p *appliedParser) items(depth int) (*applied, error) {
	a := &applied{kind: appliedItems}
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
