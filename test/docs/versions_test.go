package docs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVersions finds what docs/howto/kubernetes-versions.md says that the library uses in
// its code, and the versions that it is built and tested with.
func TestVersions(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/howto/kubernetes-versions.md"))
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		reason string
		in     string // a package, or a file
		code   string // what it has a match of
		page   string // what the page then says
	}{
		"Tested":       {"The control plane of the tests.", "hack/controlplane/go.mod", `k8s\.io/kubernetes v1\.36\.3\n`, "Kubernetes 1.36.3"},
		"ClientGo":     {"What it is built with.", "go.mod", `k8s\.io/client-go v0\.37\.`, "client-go 0.37"},
		"Go":           {"What it needs.", "go.mod", `(?m)^go 1\.26`, "Go 1.26"},
		"Leases":       {"Of the election.", "internal/engine/lead", `k8s\.io/api/coordination/v1"`, "coordination.k8s.io/v1 |"},
		"Disruption":   {"Of manifests.", "internal/manifests", `"policy/v1", "PodDisruptionBudget"`, "policy/v1 |"},
		"Events":       {"Written in the background.", "internal/engine/observe", `\(events\.k8s\.io/v1\)`, "events.k8s.io/v1 |"},
		"Streamed":     {"The reflector asks for it.", "internal/engine/watch", `opts\.SendInitialEvents != nil`, "(WatchList)"},
		"Order":        {"Else the last state counts.", "internal/engine/store", `CompareResourceVersion\(a, b\)\s+return err != nil \|\| c > 0`, "the last state to arrive counts"},
		"OpenAPI":      {"Where keys of lists stand.", "internal/engine/catalog", `openapi\.NewClientWithContext`, "OpenAPI v3"},
		"Selectors":    {"The review is that of the operator's own list.", "internal/engine/client", `LabelSelector = &authorizationv1\.LabelSelectorAttributes`, "selectors in a SelfSubjectAccessReview"},
		"Validation":   {"Only tests are strict.", "testkit", `query\.Set\("fieldValidation", level\)`, "testkit only"},
		"KindsOfToday": {"They are generated from the API server of the tests.", "resource/k8s", `kube-apiserver v1\.36\.`, "as of 1.36"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(root, tc.in)
			info, err := os.Stat(path)
			require.NoError(t, err)
			var code string
			if info.IsDir() {
				code = codeOf(t, tc.in)
			} else {
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				code = string(data)
			}
			require.Regexp(t, tc.code, code, "%s Otherwise now? Change the page and this test.", tc.reason)
			require.Contains(t, string(page), tc.page, tc.reason)
		})
	}
}
