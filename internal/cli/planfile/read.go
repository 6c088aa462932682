package planfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/engine/plan"
)

// Stdin is the path that stands for the standard input.
const Stdin = "-"

// A Parent is an object of a file.
type Parent struct {
	plan.Edited
	File string // the path; empty: the standard input
	Line int    // the first of the document, from 1
}

// Read returns the objects of all files, in their order. A path "-" means stdin, once. The
// error joins all mistakes, each with its file and document: a file that can't be read, or
// that has no object; a document that isn't YAML, or isn't an object.
func Read(paths []string, stdin io.Reader) ([]Parent, error) {
	var out []Parent
	var errs []error
	seen := map[string]bool{}
	for _, path := range paths {
		if seen[path] {
			errs = append(errs, fmt.Errorf("-f %s: given twice", path))
			continue
		}
		seen[path] = true
		found, err := readOne(path, stdin)
		out, errs = append(out, found...), append(errs, err)
	}
	return out, errors.Join(errs...)
}

// readOne is Read for one path.
func readOne(path string, stdin io.Reader) ([]Parent, error) {
	name, file := path, path
	var raw []byte
	var err error
	if path == Stdin {
		name, file = "standard input", ""
		raw, err = io.ReadAll(stdin)
	} else {
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err) // which names the path
	}
	var out []Parent
	var errs []error
	for i, doc := range split(raw) {
		source := fmt.Sprintf("%s: document %d", name, i+1)
		objects, err := decode(doc.text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
			continue
		}
		for n, object := range objects {
			from := source
			if len(objects) > 1 {
				from = fmt.Sprintf("%s, item %d", source, n+1)
			}
			out = append(out, Parent{plan.Edited{Object: object, Source: from}, file, doc.line})
		}
	}
	if len(out) == 0 && len(errs) == 0 {
		return nil, fmt.Errorf("%s: empty: there is no object in it", name)
	}
	return out, errors.Join(errs...)
}

// A document is one of a file.
type document struct {
	text []byte
	line int // the first that isn't empty, from 1
}

// split returns the documents of a file that have more than comments.
func split(raw []byte) []document {
	var out []document
	var current document
	empty, number := true, 0
	end := func() {
		if !empty {
			out = append(out, current)
		}
		current, empty = document{}, true
	}
	for line := range bytes.Lines(raw) {
		number++
		if isSeparator(line) {
			end()
			continue
		}
		if text := bytes.TrimSpace(line); empty && len(text) > 0 && text[0] != '#' {
			empty, current.line = false, number
		}
		current.text = append(current.text, line...)
	}
	end()
	return out
}

// isSeparator says whether a line ends a document.
func isSeparator(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	rest = bytes.TrimSpace(rest)
	return ok && (len(rest) == 0 || rest[0] == '#')
}

// decode returns the objects of a document: one, or the items of a List.
func decode(text []byte) ([]map[string]any, error) {
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var value any
	if err := kjson.Unmarshal(raw, &value); err != nil {
		return nil, fmt.Errorf("not an object: %w", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("not an object of Kubernetes: it must have apiVersion, kind and metadata")
	}
	items, isList := object["items"].([]any)
	if kind, _ := object["kind"].(string); !isList || !strings.HasSuffix(kind, "List") {
		return []map[string]any{object}, nil
	}
	out := make([]map[string]any, 0, len(items))
	for i, item := range items {
		one, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("item %d isn't an object of Kubernetes", i+1)
		}
		out = append(out, one)
	}
	return out, nil
}
