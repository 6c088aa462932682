package plan

import (
	"fmt"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/fieldpath"
)

// The fields of a child that the handler leaves to others: see handler.Leave.

// leftPaths reads the paths that a handler gave to handler.Leave.
func leftPaths(texts []string) ([]fieldpath.Path, error) {
	var paths []fieldpath.Path
	for _, text := range texts {
		path, err := fieldpath.ParseGiven(text)
		if err != nil {
			return nil, fmt.Errorf("handler.Leave: %w", err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// owned returns the desired state without the fields that are others'.
func (d *Desired) owned() map[string]any {
	if len(d.left) == 0 {
		return d.object
	}
	return (&merge.Comparison{Schema: d.kind.Comparison.Schema, Ignore: d.left}).Unignored(d.object)
}
