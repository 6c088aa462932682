package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// YAML returns the objects as one stream of YAML documents, the
// CustomResourceDefinitions first.
func (m *Manifests) YAML() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(m.header)
	for _, c := range m.crds {
		out.WriteString("---\n")
		out.Write(c.text)
	}
	for _, p := range m.parts {
		if !p.wanted {
			continue
		}
		text, err := p.yaml()
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

// yaml returns the objects of a part as YAML documents.
func (p *part) yaml() ([]byte, error) {
	var docs [][]byte
	for _, object := range p.objects {
		doc, err := manifestYAML(object)
		if err != nil {
			return nil, fmt.Errorf("manifests: %T: %w", object, err)
		}
		docs = append(docs, doc)
	}
	return bytes.Join(docs, []byte("---\n")), nil
}

// manifestYAML returns an object as YAML, without its status and its empty fields.
func manifestYAML(object any) ([]byte, error) {
	fields, err := fieldsOf(object)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(fields)
}

// fieldsOf returns the fields of an object without its status and those that are empty.
func fieldsOf(object any) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	withoutEmpty(fields)
	return fields, nil
}

// withoutEmpty drops nulls and empty maps, as which Go encodes empty structs. It
// changes v.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			value = withoutEmpty(value)
			if m, ok := value.(map[string]any); value == nil || ok && len(m) == 0 {
				delete(v, key)
				continue
			}
			v[key] = value
		}
	case []any:
		for i, item := range v {
			v[i] = withoutEmpty(item)
		}
	}
	return v
}
