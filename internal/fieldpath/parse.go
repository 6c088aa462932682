package fieldpath

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Parse reads a path. Names and values that hold one of . [ ] " = , * or space
// are quoted as in Go; unquoted values of keys are numbers or booleans if they
// look like that. The error says what is wrong at which place.
func Parse(text string) (Path, error) {
	if text == "" {
		return nil, errors.New("field path: empty")
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("field path %q: not valid UTF-8", text)
	}
	p := parser{text: text}
	path, err := p.path()
	if err != nil {
		return nil, fmt.Errorf("field path %q: at character %d: %w", text, p.pos+1, err)
	}
	return path, nil
}

// ParseGiven is Parse for a path that somebody has written by hand. It also refuses what
// Parse would take for names that no object has: other notations, and a path that leads
// into the value of a label or an annotation, since its key isn't quoted. The error says
// how to write a path.
func ParseGiven(text string) (Path, error) {
	const example = "write it as in spec.containers[name=app].image"
	switch {
	case strings.HasPrefix(text, "/"):
		return nil, fmt.Errorf("field path %q: a JSON Pointer; %s", text, example)
	case strings.HasPrefix(text, "$"), strings.HasPrefix(text, "{"):
		return nil, fmt.Errorf("field path %q: a JSONPath expression; %s", text, example)
	}
	path, err := Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w; %s", err, example)
	case path[0].Field == "":
		return nil, fmt.Errorf("field path %q: begins with an item, but an object is no list; %s", text, example)
	case path.inText():
		return nil, fmt.Errorf("field path %q: leads into a string; quote the key, as in metadata.%s[\"example.com/name\"]", text, path[1].Field)
	}
	return path, nil
}

type parser struct {
	text string
	pos  int
}

func (p *parser) path() (Path, error) {
	var path Path
	for p.pos < len(p.text) {
		if p.text[p.pos] == '[' {
			step, err := p.brackets()
			if err != nil {
				return nil, err
			}
			path = append(path, step)
			continue
		}
		if len(path) > 0 && !p.take('.') {
			return nil, errors.New("want a dot or an opening bracket")
		}
		name := p.plain("")
		if name == "" {
			return nil, errors.New("want the name of a field")
		}
		path = append(path, Step{Field: name})
	}
	return path, nil
}

// brackets reads ["name"], [0], [*] or [key=value,…].
func (p *parser) brackets() (Step, error) {
	p.pos++
	step, err := p.inBrackets()
	if err != nil {
		return Step{}, err
	}
	if !p.take(']') {
		return Step{}, errors.New("want a closing bracket")
	}
	return step, nil
}

func (p *parser) inBrackets() (Step, error) {
	if p.take('*') {
		return Step{Any: true}, nil
	}
	start := p.pos
	name, quoted, err := p.name()
	if err != nil {
		return Step{}, err
	}
	if !p.peek('=') {
		if quoted {
			return Step{Field: name}, nil
		}
		index, err := strconv.Atoi(name)
		if err != nil || index < 0 || strconv.Itoa(index) != name {
			p.pos = start
			return Step{}, errors.New(`want an index, *, key=value or a name in double quotes`)
		}
		return Step{Index: index}, nil
	}
	p.pos = start
	return p.keys()
}

// keys reads name=value,name=value.
func (p *parser) keys() (Step, error) {
	var step Step
	for {
		start := p.pos
		name, _, err := p.name()
		if err != nil {
			return Step{}, err
		}
		for _, kv := range step.Key {
			if kv.Name == name {
				p.pos = start
				return Step{}, fmt.Errorf("the key %q is there already", name)
			}
		}
		if !p.take('=') {
			return Step{}, errors.New("want = after the name of a key")
		}
		value, err := p.value()
		if err != nil {
			return Step{}, err
		}
		step.Key = append(step.Key, KeyValue{Name: name, Value: value})
		if !p.take(',') {
			return step, nil
		}
	}
}

func (p *parser) value() (any, error) {
	if p.peek('"') {
		return p.quoted()
	}
	text := p.plain(".")
	if text == "" {
		return nil, errors.New("want a value")
	}
	return plainValue(text), nil
}

// name reads a name, in quotes or not. It is not empty.
func (p *parser) name() (name string, quoted bool, err error) {
	start := p.pos
	if p.peek('"') {
		name, err = p.quoted()
		quoted = true
	} else {
		name = p.plain("")
	}
	if err == nil && name == "" {
		p.pos = start
		err = errors.New("want a name")
	}
	return name, quoted, err
}

// plain reads up to the next special character that is not among allowed.
func (p *parser) plain(allowed string) string {
	start := p.pos
	for i, c := range p.text[start:] {
		if isSpecial(c) && !strings.ContainsRune(allowed, c) {
			p.pos = start + i
			return p.text[start:p.pos]
		}
	}
	p.pos = len(p.text)
	return p.text[start:]
}

func (p *parser) quoted() (string, error) {
	prefix, err := strconv.QuotedPrefix(p.text[p.pos:])
	if err != nil {
		return "", errors.New("want a string in double quotes")
	}
	text, err := strconv.Unquote(prefix)
	if err != nil {
		return "", errors.New("want a string in double quotes")
	}
	p.pos += len(prefix)
	return text, nil
}

func (p *parser) peek(c byte) bool { return p.pos < len(p.text) && p.text[p.pos] == c }

func (p *parser) take(c byte) bool {
	if p.peek(c) {
		p.pos++
		return true
	}
	return false
}
