package runner

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
)

// snapshot returns what the handler is to see of a parent, false if the parent
// isn't there. It includes the result of every write that this process has
// made.
func (r *engine) snapshot(uid types.UID) (*handler.SyncRequest, bool) {
	parent, children := r.store.family(uid)
	if parent == nil {
		return nil, false
	}
	return &handler.SyncRequest{Parent: parent, Children: handler.NewChildren(children...)}, true
}
