package crd

import "fmt"

// StatusDoubt says what an operator's parents would miss in a version of a definition, ""
// if nothing: the status subresource, or observedGeneration in the status. A version that
// doesn't exist misses nothing.
func StatusDoubt(d *Definition, version string) string {
	v := d.Version(version)
	if v == nil {
		return ""
	}
	at := fmt.Sprintf("CustomResourceDefinition %s: spec.versions[name=%s]", d.Name, version)
	if !v.HasStatus {
		return at + ".subresources.status: missing; a status can't be written without it: add `subresources: {status: {}}`"
	}
	const field, advice = "observedGeneration", "add it as `{type: integer, format: int64}`"
	status := mapOf(mapOf(v.Schema["properties"])["status"])
	switch {
	case status == nil && keepsUnknown(v.Schema), keepsUnknown(status), mapOf(status["properties"])[field] != nil:
		return ""
	}
	if _, ok := status["additionalProperties"]; ok {
		return ""
	}
	return fmt.Sprintf("%s.schema.openAPIV3Schema: status.%s: missing; the API server drops it, so that nobody sees which generation a status is of: %s", at, field, advice)
}

// keepsUnknown says whether fields that a schema doesn't name are kept.
func keepsUnknown(s map[string]any) bool { return s["x-kubernetes-preserve-unknown-fields"] == true }
