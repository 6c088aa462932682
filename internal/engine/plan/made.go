package plan

import (
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/engine/merge"
)

// Made returns the fields of body that the API server may have to make anew, since
// what they follow from has changed: fields that no desired state has said, such as
// the targetPort of a Service's port. body is the UpdateBody of a. Somebody else may
// have set some of these fields. The result is empty if only metadata differ, or if
// the child has the desired state that it was last given, and only somebody else's
// change is undone.
func Made(a *Action, body map[string]any) []merge.MadeField {
	if a.former == nil || !a.saysMore && !slices.ContainsFunc(a.Diffs, outsideMetadata) {
		return nil
	}
	return a.Kind.Comparison.Without(a.settledPaths()).Made(a.LiveObject(), body, a.Want.object)
}

// outsideMetadata says whether a difference is in no field of the metadata.
func outsideMetadata(d merge.Difference) bool {
	return d.Path != "metadata" && !strings.HasPrefix(d.Path, "metadata.")
}
