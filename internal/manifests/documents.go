package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// splitDocuments returns the YAML documents of a text that aren't empty.
func splitDocuments(text []byte) ([][]byte, error) {
	var out [][]byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var value any
		if err := yaml.Unmarshal(doc, &value); err != nil {
			return nil, fmt.Errorf("document %d: %w", len(out)+1, err)
		}
		if value != nil {
			out = append(out, doc)
		}
	}
}
