package listkeys

import (
	"bytes"
	_ "embed" // for the table
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/roperator/roperator/resource"
)

// The table names each schema that is referred to, so that what several kinds
// share is written once, and has each kind (Type.String() -> name of a schema)
// and schema on a line of its own. In it a node is one of
//
//	null             nothing is known
//	"s", "q", "i"    a scalar, quantity, int-or-string
//	"#name"          the schema of that name
//	{…}              a tableNode
//
//go:embed zz_generated.json
var tableJSON string

// The kinds that are written as one letter.
const scalars = "sqi" // at the index of the Kind

// A tableNode is a Struct, Map or List in the table.
type tableNode struct {
	Fields      map[string]json.RawMessage `json:"f,omitempty"` // of a Struct
	Values      json.RawMessage            `json:"m,omitempty"` // of a Map
	Items       json.RawMessage            `json:"l,omitempty"` // of a List
	Keys        []string                   `json:"k,omitempty"`
	PatchKey    string                     `json:"p,omitempty"`
	KeyDefaults map[string]any             `json:"d,omitempty"`
	Set         bool                       `json:"set,omitempty"`
	Atomic      bool                       `json:"a,omitempty"`
	RetainKeys  bool                       `json:"r,omitempty"`
	Zeros       []string                   `json:"z,omitempty"` // of a Struct
}

// For returns the Node of a built-in kind, nil if t is not one. Each call reads
// it anew, and nothing else of the table; a table that is broken there, which a
// test would find, knows nothing.
func For(t resource.Type) *Node {
	n, err := read(tableJSON, t)
	if err != nil {
		return nil
	}
	return n
}

// objectMeta returns the Node of any object's metadata.
func objectMeta() *Node {
	return For(resource.Type{APIVersion: "v1", Kind: "ConfigMap"}).Field("metadata")
}

// read returns a kind's Node, nil if the table hasn't got it.
func read(table string, t resource.Type) (*Node, error) {
	line, ok := lineOf(table, t.String())
	if !ok {
		return nil, nil
	}
	var name string
	if err := json.Unmarshal([]byte(line), &name); err != nil {
		return nil, fmt.Errorf("table: %s: %w", t, err)
	}
	d := decoder{table: table, byName: map[string]*Node{}}
	for kind := range d.plain {
		d.plain[kind] = &Node{Kind: Kind(kind)}
	}
	n, err := d.named(name)
	if err != nil {
		return nil, fmt.Errorf("table: %s: %w", t, err)
	}
	return n, nil
}

// lineOf returns the value of the kind or schema, which has a line of its own.
func lineOf(table, name string) (string, bool) {
	_, rest, ok := strings.Cut(table, "\n\""+name+"\":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSuffix(line, ","), ok
}

type decoder struct {
	table  string
	byName map[string]*Node
	plain  [len(scalars)]*Node
}

func (d *decoder) named(name string) (*Node, error) {
	if n, ok := d.byName[name]; ok {
		return n, nil
	}
	line, ok := lineOf(d.table, name)
	if !ok {
		return nil, fmt.Errorf("no schema %q", name)
	}
	n := &Node{}
	d.byName[name] = n
	return n, d.fill(n, json.RawMessage(line))
}

func (d *decoder) node(raw json.RawMessage) (*Node, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '"' {
		n := &Node{}
		return n, d.fill(n, raw)
	}
	text := string(raw[1 : len(raw)-1])
	if name, isName := strings.CutPrefix(text, "#"); isName {
		return d.named(name)
	}
	kind := strings.Index(scalars, text)
	if len(text) != 1 || kind < 0 {
		return nil, fmt.Errorf("unknown node %q", text)
	}
	return d.plain[kind], nil
}

func (d *decoder) fill(n *Node, raw json.RawMessage) (err error) {
	var t tableNode
	if err := json.Unmarshal(raw, &t); err != nil {
		return err
	}
	n.Keys, n.PatchKey, n.KeyDefaults = t.Keys, t.PatchKey, t.KeyDefaults
	n.Set, n.Atomic, n.RetainKeys, n.Zeros = t.Set, t.Atomic, t.RetainKeys, t.Zeros
	for key, value := range n.KeyDefaults {
		n.KeyDefaults[key] = whole(value)
	}
	switch {
	case t.Items != nil:
		n.Kind = List
		n.Elem, err = d.node(t.Items)
	case t.Values != nil:
		n.Kind = Map
		n.Elem, err = d.node(t.Values)
	default:
		n.Kind = Struct
		n.Fields = make(map[string]*Node, len(t.Fields))
		for name, field := range t.Fields {
			if n.Fields[name], err = d.node(field); err != nil {
				return err
			}
		}
		noteKnown(n.Fields)
	}
	return err
}

// EncodeTable returns the table of the given kinds, one schema a line. named
// are the nodes that have a name; those that can't be reached from a kind are
// left out. It is for the generator.
func EncodeTable(kinds map[resource.Type]string, named map[string]*Node) ([]byte, error) {
	e := encoder{names: map[*Node]string{}, schemas: map[string]any{}}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if n := named[name]; n != nil && n.Kind > IntOrString {
			if _, taken := e.names[n]; !taken {
				e.names[n] = name
			}
		}
	}
	lines := map[string]string{}
	for t, name := range kinds {
		n := named[name]
		if e.names[n] == "" {
			return nil, fmt.Errorf("%s: no schema %q", t, name)
		}
		lines[t.String()] = e.names[n]
		e.node(n)
	}
	var out bytes.Buffer
	out.WriteString("{\"kinds\":{\n")
	err := writeLines(&out, lines)
	if err == nil {
		out.WriteString("},\"schemas\":{\n")
		err = writeLines(&out, e.schemas)
	}
	out.WriteString("}}\n")
	return out.Bytes(), err
}

func writeLines[V any](out *bytes.Buffer, members map[string]V) error {
	for i, key := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			out.WriteString(",\n")
		}
		line, err := json.Marshal(map[string]V{key: members[key]})
		if err != nil {
			return err
		}
		out.Write(line[1 : len(line)-1])
	}
	out.WriteByte('\n')
	return nil
}

type encoder struct {
	names   map[*Node]string
	schemas map[string]any
}

// node returns what stands for n in the table.
func (e *encoder) node(n *Node) any {
	if n == nil {
		return nil
	}
	if int(n.Kind) < len(scalars) {
		return scalars[n.Kind : n.Kind+1]
	}
	name, isNamed := e.names[n]
	if !isNamed {
		return e.inline(n)
	}
	if _, done := e.schemas[name]; !done {
		e.schemas[name] = nil // for cycles
		e.schemas[name] = e.inline(n)
	}
	return "#" + name
}

func (e *encoder) inline(n *Node) any {
	out := map[string]any{}
	switch n.Kind {
	case List:
		out["l"] = e.node(n.Elem)
	case Map:
		out["m"] = e.node(n.Elem)
	default:
		fields := make(map[string]any, len(n.Fields))
		for name, field := range n.Fields {
			fields[name] = e.node(field)
		}
		out["f"] = fields
	}
	set := func(key string, value any, isSet bool) {
		if isSet {
			out[key] = value
		}
	}
	set("k", n.Keys, len(n.Keys) > 0)
	set("p", n.PatchKey, n.PatchKey != "")
	set("d", n.KeyDefaults, len(n.KeyDefaults) > 0)
	set("set", true, n.Set)
	set("a", true, n.Atomic)
	set("r", true, n.RetainKeys)
	set("z", n.Zeros, len(n.Zeros) > 0)
	return out
}
