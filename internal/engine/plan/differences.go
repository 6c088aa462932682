package plan

import (
	"slices"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// Differences lists the fields in which the live object doesn't satisfy want, for
// the assertions of testkit. Both are JSON values of type t, which needn't be one
// that the operator watches. A status counts, though the engine compares none.
// Conditions are compared by type: neither their order nor their times count, and others are
// free. Their paths read like status.conditions.Ready.message.
// Differences fills in aliases in want: see spellOut.
func Differences(c *catalog.Catalog, t resource.Type, live, want map[string]any) []merge.Difference {
	spellOut(t, listkeys.For(t), want)
	compared := merge.Comparison{Partial: true}
	if k := c.Of(t); k != nil {
		compared.Schema = k.Comparison.Schema
	}
	out := slices.DeleteFunc(compared.Compare(live, want, nil), func(d merge.Difference) bool {
		list, ok := d.Desired.([]any)
		return ok && len(list) == 0 && d.Live == nil // an assertion that nothing is there
	})
	if status, ok := want["status"].(map[string]any); ok {
		out = append(out, compared.CompareAt("status", byType(live["status"]), wantedByType(status))...)
	}
	return out
}
