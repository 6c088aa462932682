package conformance

import (
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

// restartReading is restart, and requires that neither the plan nor the operator
// asks for a dry run.
func (s *stage) restartReading() {
	s.t.Helper()
	from := needsAudit(s.t).mark(s.t)
	s.restart()
	require.Empty(s.t, s.triedSince(from), "dry runs of a restart")
}

// handler returns the handler that answers with what the test wants.
func (s *stage) handler() handler.Handler { return handler.SyncFunc(s.sync) }

// triedSince returns the dry runs that the operator has asked for since then.
func (s *stage) triedSince(from mark) []string {
	s.t.Helper()
	var tried []string
	for _, r := range needsAudit(s.t).since(s.t, from, s.config.Name) {
		if r.DryRun {
			tried = append(tried, r.String())
		}
	}
	return tried
}

// writtenSince returns the operator's writes since then, but for those of the
// parent. Refused writes are among them, dry runs aren't.
func (s *stage) writtenSince(from mark) []string {
	s.t.Helper()
	var written []string
	for _, r := range needsAudit(s.t).since(s.t, from, s.config.Name) {
		if r.persists() && r.Resource != "parents" && r.Resource != "events" {
			written = append(written, r.String())
		}
	}
	return written
}

// toUpdate returns an object to be changed and given to Kit.Update, which tries again then if the operator
// has written into it meanwhile, its status say.
func toUpdate(live *resource.Resource) *unstructured.Unstructured {
	u := live.Unstructured()
	u.SetResourceVersion("")
	return u
}

// patchAs patches a child, as somebody of this name.
func (s *stage) patchAs(name string, gvr schema.GroupVersionResource, child, patch string) {
	s.t.Helper()
	_, untyped := clients(s.t, name)
	_, err := untyped.Resource(gvr).Namespace(s.Namespace).Patch(s.t.Context(), child, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(s.t, err)
}

// strip takes the managedFields off a child.
func (s *stage) strip(gvr schema.GroupVersionResource, child string) {
	s.t.Helper()
	s.patchAs("somebody", gvr, child, `{"metadata":{"managedFields":[{}]}}`)
}

var (
	deploymentsResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	servicesResource    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	podsResource        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)
