package merge

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParseFieldSet returns the set whose text Encode has written. Anybody may have
// changed the text since. So ParseFieldSet returns an error for a text with a wrong
// syntax, with names out of order, of more than 256 KiB, or nested more deeply than
// the set of any object.
func ParseFieldSet(s string) (*FieldSet, error) {
	if len(s) > maxText {
		return nil, fmt.Errorf("field set: %d bytes, more than %d", len(s), maxText)
	}
	p := parser{rest: s, value: &FieldSet{}, whole: &FieldSet{kind: shapeWhole}}
	if s == "*" {
		return p.whole, nil
	}
	fields, err := p.sortedFields(0)
	if err == nil && p.rest != "" {
		err = errors.New("end expected")
	}
	if err != nil {
		return nil, fmt.Errorf("field set: offset %d: %w", len(s)-len(p.rest), err)
	}
	return &FieldSet{kind: shapeObject, fields: fields}, nil
}

// A parser reads the text of a FieldSet. Leaves of the same shape share one
// FieldSet.
type parser struct {
	rest         string // the text that is still to be read
	value, whole *FieldSet
}

// take skips the next byte if it is c, and says whether it was.
func (p *parser) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// expect skips the next byte, which must be c.
func (p *parser) expect(c byte) error {
	if !p.take(c) {
		return fmt.Errorf("%q expected", c)
	}
	return nil
}

// sortedFields reads members that are sorted by name. Each name is there once.
func (p *parser) sortedFields(depth int) (members, error) {
	return p.fields(depth, func(before, name string) error {
		if before >= name {
			return fmt.Errorf("%q is out of order", name)
		}
		return nil
	})
}

// fields reads members: names with the sets below them, up to the end of the text
// or a closing bracket. check may refuse a name that comes after another one.
func (p *parser) fields(depth int, check func(before, name string) error) (members, error) {
	var fields members
	if p.rest == "" || strings.IndexByte("}]>", p.rest[0]) >= 0 {
		return fields, nil
	}
	for {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		if last := len(fields) - 1; last >= 0 && check != nil {
			if err := check(fields[last].name, name); err != nil {
				return nil, err
			}
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

// name reads the name of a member, or the joined names of the keys of a list.
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

// below reads the set that follows a name.
func (p *parser) below(depth int) (*FieldSet, error) {
	var set *FieldSet
	var err error
	switch {
	case depth > maxDepth+1:
		return nil, errors.New("nested too deeply")
	case p.take('*'):
		return p.whole, nil
	case p.take('{'):
		set = &FieldSet{kind: shapeObject}
		if set.fields, err = p.sortedFields(depth); err == nil {
			err = p.expect('}')
		}
	case p.take('<'):
		set = &FieldSet{kind: shapeSet}
		if set.fields, err = p.sortedFields(depth); err == nil {
			err = p.expect('>')
		}
	case p.take('['):
		set, err = p.keyed(depth)
	case p.take('('):
		set, err = p.items(depth)
	default:
		set = p.value
	}
	return set, err
}

// keyed reads a keyed list. Its opening bracket has been read.
func (p *parser) keyed(depth int) (*FieldSet, error) {
	set := &FieldSet{kind: shapeKeyed}
	if p.take(']') {
		return set, nil
	}
	keys, err := p.name()
	if err != nil {
		return nil, err
	}
	set.keys = strings.Split(keys, "|")
	if p.take('>') {
		err = p.itemsInOrder(set, depth)
	} else if err = p.expect(':'); err == nil {
		set.fields, err = p.sortedFields(depth)
	}
	if err != nil {
		return nil, err
	}
	return set, p.expect(']')
}

// itemsInOrder reads the items of a keyed list, which are in their own order.
func (p *parser) itemsInOrder(set *FieldSet, depth int) error {
	items, err := p.fields(depth, nil)
	if err != nil {
		return err
	}
	if set.fields, set.order = items.ordered(); len(set.fields) < len(items) {
		return errors.New("an item is there twice")
	}
	return nil
}

// items reads a list that is compared whole. Its opening parenthesis has been read.
func (p *parser) items(depth int) (*FieldSet, error) {
	set := &FieldSet{kind: shapeItems}
	for {
		item, err := p.below(depth + 1)
		if err != nil {
			return nil, err
		}
		set.items = append(set.items, item)
		if !p.take(',') {
			return set, p.expect(')')
		}
	}
}
