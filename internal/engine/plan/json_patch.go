package plan

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/resource"
)

// The JSON Patches (RFC 6902) that the engine sends.

// FinalizerPatch returns a JSON Patch that gives a parent the finalizers want. The
// API server refuses the patch if the object has another UID or other finalizers
// by then. With sameLabels, it refuses the patch if the labels are others, too.
// A test of an absent list against null succeeds (tried on kube-apiserver 1.36).
func FinalizerPatch(parent *resource.Resource, want []string, sameLabels bool) ([]byte, error) {
	var before, labels any
	if held := parent.Finalizers(); len(held) > 0 {
		before = held
	}
	if held := parent.Labels(); len(held) > 0 {
		labels = held
	}
	ops := []operation{{"test", "/metadata/uid", parent.UID()}, {"test", "/metadata/finalizers", before}}
	if sameLabels {
		ops = append(ops, operation{"test", "/metadata/labels", labels})
	}
	return jsonPatch(append(ops, operation{"add", "/metadata/finalizers", want})...)
}

// ManagedFieldsPatch returns a JSON Patch that gives an object other managedFields.
// The API server refuses the patch, as a conflict, unless the object is at this
// resourceVersion.
func ManagedFieldsPatch(entries []metav1.ManagedFieldsEntry, resourceVersion string) ([]byte, error) {
	return jsonPatch(
		operation{"replace", "/metadata/managedFields", entries},
		operation{"replace", "/metadata/resourceVersion", resourceVersion},
	)
}

// An operation is one step of a JSON Patch.
type operation struct {
	op, path string
	value    any
}

// jsonPatch encodes a JSON Patch.
func jsonPatch(ops ...operation) ([]byte, error) {
	patch := make(jsonpatch.Patch, 0, len(ops))
	for _, o := range ops {
		encoded := jsonpatch.Operation{}
		for name, v := range map[string]any{"op": o.op, "path": o.path, "value": o.value} {
			raw, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("patch of %s: %w", o.path, err)
			}
			encoded[name] = (*json.RawMessage)(&raw)
		}
		patch = append(patch, encoded)
	}
	return json.Marshal(patch)
}
