package apply_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestVerify_Refused: the dry run of an update, which is to tell whether somebody has changed
// a child, may be refused. A policy's refusal says nothing of the child. That of the API
// server's own validation says that something beside the desired state can't be there.
func TestVerify_Refused(t *testing.T) {
	invalid := func(message string, causes ...metav1.StatusCause) error {
		err := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "c", nil)
		err.ErrStatus.Message = message
		err.ErrStatus.Details.Causes = causes
		return err
	}
	contradiction := invalid(`ConfigMap "c" is invalid: data: they can't both be set`)
	forbidden := invalid(`ConfigMap "c" is invalid: more`, metav1.StatusCause{Type: metav1.CauseTypeForbidden, Field: "more", Message: "may not be set beside k"})
	fixed := invalid(`ConfigMap "c" is invalid: data.k`, metav1.StatusCause{Type: metav1.CauseTypeForbidden, Field: "data.k", Message: "field is immutable"})
	around := invalid(`ConfigMap "c" is invalid: data`, metav1.StatusCause{Type: metav1.CauseTypeForbidden, Field: "data", Message: "field is immutable"})
	policy := invalid(`configmaps "c" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no`)
	webhook := invalid(`admission webhook "w" denied the request: no`)
	const update, trial, write = "dry update ConfigMap ns/c", "dry create ConfigMap ns/roperator-dry-run", "update ConfigMap ns/c"
	const removed, changed, injected, other = "removed", "changed", "injected", "other"
	for name, tc := range map[string]struct {
		reason string
		now    string           // what has become of the field; injected: by a webhook, at creations
		denied map[string]error // the answers, by the verb
		asked  []string
		failed bool // it is an error
	}{
		"policy, removed":        {"the field may be the webhook's doing", removed, map[string]error{"update": policy}, []string{update}, false},
		"policy, changed":        {"the policy will go", changed, map[string]error{"update": policy}, []string{update}, false},
		"webhook, changed":       {"the same code as the API server's", changed, map[string]error{"update": webhook}, []string{update}, false},
		"contradiction, removed": {"a creation has the field, so somebody has removed it", removed, map[string]error{"update": contradiction}, []string{update, trial, write}, true},
		"contradiction, changed": {"somebody has set the field", changed, map[string]error{"update": contradiction}, []string{update, write}, true},
		"contradiction, made so": {"a creation comes out the same", injected, map[string]error{"update": contradiction}, []string{update, trial}, false},
		"contradiction, and nothing can be created": {
			"nothing tells whose doing it is", removed, map[string]error{"update": contradiction, "create": policy}, []string{update, trial}, false,
		},
		"another field": {
			"what is refused is no field that differs", changed, map[string]error{"update": forbidden}, []string{update, write}, true,
		},
		"another field, at a webhook's value": {
			"a creation is tried once: it comes out otherwise", other, map[string]error{"update": forbidden}, []string{update, trial, update, write}, true,
		},
		"immutable":            {"nobody can have changed it since the creation", changed, map[string]error{"update": fixed}, []string{update}, false},
		"immutable as a whole": {"the same, by the object around it", changed, map[string]error{"update": around}, []string{update}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
			live := f.given(child(k8s.ConfigMap, "c", map[string]any{"k": "v", "l": "v"}), func(o map[string]any) {
				switch data, _ := o["data"].(map[string]any); tc.now {
				case removed, injected:
					delete(data, "k")
				case changed, other: // of the other, managedFields tell nothing
					data["k"] = "theirs"
				}
			})
			if tc.now != other {
				f.store.HoldFields(live, []string{`{"f:data":{"f:l":{}}}`})
			}
			f.server.SetHooks(fakeapi.Hooks{
				Before: func(r fakeapi.Request) error { return tc.denied[r.Verb] },
				Admit: func(r fakeapi.Request, object map[string]any) error {
					if data, ok := object["data"].(map[string]any); ok && r.Verb == "create" && tc.now == injected {
						delete(data, "k")
					}
					return nil
				},
			})
			p := f.plan([]*resource.Resource{live}, child(k8s.ConfigMap, "c", map[string]any{"k": "v", "l": "v"}))
			require.Len(t, p.Writes, 1)
			require.Equal(t, plan.VerbVerify, p.Writes[0].Verb)
			got := f.run(t.Context(), p).Results[0]
			asked := f.asked()
			require.Equal(t, tc.asked, asked[:min(len(tc.asked), len(asked))], tc.reason)
			require.Equal(t, tc.failed, got.Err != nil, "%s: %v", tc.reason, got.Err)
			if !tc.failed {
				require.Len(t, asked, len(tc.asked), tc.reason)
			}
		})
	}
}
