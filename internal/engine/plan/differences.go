package plan

import (
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// Differences lists the fields in which an object doesn't satisfy a desired one,
// for tests. A status counts, though no desired child can have one.
func Differences(c *catalog.Catalog, t resource.Type, live, want map[string]any) []merge.Difference {
	spellOut(t, listkeys.For(t), want)
	compared := merge.Comparison{}
	if k := c.Of(t); k != nil {
		compared.Schema = k.Comparison.Schema
	}
	out := compared.Compare(live, want, nil)
	if status, ok := want["status"].(map[string]any); ok {
		out = append(out, compared.CompareAt("status", live["status"], status)...)
	}
	return out
}
