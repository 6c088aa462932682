package plan

import (
	"strings"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
)

// Fields of built-in kinds that other controllers set, and that go in one direction: the API server rejects each write that gives
// them back their desired value, so what differs there is no drift. SEMANTICS S211 to S214.

// splitOneWay splits differences into those of fields that have gone their one way, and the others. sameValue reports whether the
// desired value of a difference was accepted before.
func splitOneWay(k *catalog.Kind, live map[string]any, diffs []merge.Difference, sameValue func(merge.Difference) bool) (gone, others []merge.Difference) {
	var is func(merge.Difference) bool
	switch gk := k.Type.GroupVersionKind().GroupKind(); gk.Group + "/" + gk.Kind {
	case "batch/Job":
		if suspended, _ := valueAt(live, "spec", "suspend").(bool); suspended {
			return nil, diffs
		}
		is = func(d merge.Difference) bool { return isJobTemplate(plainPath(d.Path)) && sameValue(d) }
	case "/Pod":
		is = func(d merge.Difference) bool {
			path := plainPath(d.Path)
			return isBelow(path, "spec.schedulingGates") && d.Live == nil || isContainerResource(path) && sameValue(d)
		}
	case "/PersistentVolumeClaim":
		is = func(d merge.Difference) bool {
			return plainPath(d.Path) == "spec.resources.requests.storage" && isGreater(d.Live, d.Desired)
		}
	default:
		return nil, diffs
	}
	for _, d := range diffs {
		if is(d) {
			gone = append(gone, d)
		} else {
			others = append(others, d)
		}
	}
	return gone, others
}

// isJobTemplate reports whether a path is one of those that can be changed while a Job is suspended, and not afterwards.
func isJobTemplate(path string) bool {
	below, ok := strings.CutPrefix(path, "spec.template.")
	if !ok {
		return false
	}
	for _, mutable := range []string{"metadata.labels", "metadata.annotations", "spec.nodeSelector", "spec.affinity.nodeAffinity", "spec.tolerations", "spec.schedulingGates"} {
		if isBelow(below, mutable) {
			return true
		}
	}
	return below == "spec.affinity" || isContainerResource(below)
}

// isContainerResource reports whether a path is that of a container's resources.
func isContainerResource(path string) bool {
	for _, containers := range []string{"spec.containers", "spec.initContainers"} {
		if isBelow(path, containers+".resources") {
			return true
		}
	}
	return false
}

// isGreater reports whether a quantity is greater than another one.
func isGreater(live, desired any) bool {
	have, ok := quantityOf(live)
	if !ok {
		return false
	}
	want, ok := quantityOf(desired)
	return ok && have.Cmp(want) > 0
}
