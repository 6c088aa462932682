package apply_test

import (
	"cmp"
	"fmt"
	"strings"
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

// With RecreateImmutable, a child is deleted if its update is refused for an immutable field and
// the API server would create it so, and for nothing else.
func TestRecreateImmutable(t *testing.T) {
	refusal := func(message string, causes ...metav1.StatusCause) error {
		err := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "c", nil)
		err.ErrStatus.Message, err.ErrStatus.Details.Causes = message, causes
		return err
	}
	immutable := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "data", Message: "field is immutable"}
	fixed := refusal(`ConfigMap "c" is invalid: data`, immutable)
	short := refusal("", metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "data", Message: "must be short"})
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "c", fmt.Errorf("exceeded quota: q, requested: a=1, used: a=1, limited: a=1"))
	for name, tc := range map[string]struct {
		reason string
		off    bool // RecreateImmutable isn't set
		dryRun bool
		denied map[string]error // the answers, by the verb
		verb   plan.Verb        // of the action that is left
		gone   bool
		failed bool
	}{
		"immutable":  {"it comes back with the next pass", false, false, map[string]error{"update": fixed}, plan.VerbRecreate, true, false},
		"not wanted": {"an error says what would help", true, false, map[string]error{"update": fixed}, plan.VerbUpdate, false, true},
		"dry run":    {"nothing is deleted", false, true, map[string]error{"update": fixed}, plan.VerbRecreate, false, false},
		"invalid": {
			"no object may be so", false, false,
			map[string]error{"update": short, "create": short}, plan.VerbUpdate, false, true,
		},
		"rule":          {"a rule of a CRD has words of its own, and a new object may be so", false, false, map[string]error{"update": short}, plan.VerbRecreate, true, false},
		"rule, foreign": {"another client's field is the reason", false, false, map[string]error{"theirs": short}, plan.VerbUpdate, false, true},
		"other field":   {"the action does not change it", false, false, map[string]error{"update": refusal("", metav1.StatusCause{Type: metav1.CauseTypeForbidden, Field: "binaryData", Message: "may only be used otherwise"})}, plan.VerbUpdate, false, true},
		"webhook": {
			"it speaks of immutability, and may say no to the new one as well", false, false,
			map[string]error{"update": refusal(`admission webhook "w" denied the request: no`, immutable)}, plan.VerbUpdate, false, true,
		},
		"policy":        {"it isn't about a field", false, false, map[string]error{"update": refusal(`configmaps "c" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: immutable`)}, plan.VerbUpdate, false, true},
		"quota":         {"it may have room later", false, false, map[string]error{"update": quota}, plan.VerbUpdate, false, true},
		"not creatable": {"nothing would come back", false, false, map[string]error{"update": fixed, "create": refusal("", metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "data", Message: "field is immutable"})}, plan.VerbUpdate, false, true},
		"mended":        {"nothing is refused", false, false, nil, plan.VerbUpdate, false, false},
	} {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
			t.Run(name+" "+string(strategy), func(t *testing.T) {
				f := newFixture(t, "ns", tc.dryRun, config.Child{Type: k8s.ConfigMap, Strategy: strategy, RecreateImmutable: !tc.off})
				live := f.given(child(k8s.ConfigMap, "c", map[string]any{"k": "v"}), func(o map[string]any) { o["immutable"] = false })
				f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb == "patch" || r.Verb == "apply" {
						r.Verb = "update" // a server-side apply, beside others' fields
						return cmp.Or(tc.denied["theirs"], tc.denied["update"])
					}
					if r.Verb == "update" && strings.Contains(string(r.Body), "immutable") {
						return cmp.Or(tc.denied["theirs"], tc.denied["update"])
					}
					return tc.denied[r.Verb]
				}})
				p := f.plan([]*resource.Resource{live}, child(k8s.ConfigMap, "c", map[string]any{"k": "new"}))
				require.Len(t, p.Writes, 1)
				got := f.run(t.Context(), p).Results[0]
				verb := got.Action.Verb
				if verb == plan.VerbApply {
					verb = plan.VerbUpdate
				}
				require.Equal(t, tc.verb, verb, "%s: %v", tc.reason, got.Err)
				require.Equal(t, tc.failed, got.Err != nil, "%s: %v", tc.reason, got.Err)
				require.Equal(t, tc.gone, f.server.Get(k8s.ConfigMap, key("c")) == nil, tc.reason)
			})
		}
	}
}

// The refusal to change an immutable field says what would help.
func TestImmutable_Advice(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		child  config.Child
		cause  string
		want   string
	}{
		"Replace": {"one setting is for such fields alone", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}, "", "; strategy Recreate would, RecreateImmutable would for such a field alone, and OnDelete would wait until the object is deleted"},
		"Apply":   {"one setting is for such fields alone", config.Child{Type: k8s.ConfigMap, Strategy: config.Apply}, "", "; strategy Recreate would, RecreateImmutable would for such a field alone, and OnDelete would wait until the object is deleted"},
		"Data":    {"that setting isn't for what holds data", config.Child{Type: k8s.PersistentVolumeClaim, Strategy: config.Replace}, "", "; strategy Recreate would and lose the object's data, and OnDelete would wait until the object is deleted"},
		"Denied":  {"a webhook's words are no reason for that setting", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace, RecreateImmutable: true}, `admission webhook "w" denied the request: no`, "; strategy Recreate would, and OnDelete would wait until the object is deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, tc.child)
			live := f.given(child(tc.child.Type, "c", map[string]any{"k": "v"}), func(map[string]any) {})
			f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
				if r.Verb != "update" && r.Verb != "patch" && r.Verb != "apply" {
					return nil
				}
				err := apierrors.NewInvalid(schema.GroupKind{Kind: tc.child.Type.Kind}, "c", nil)
				err.ErrStatus.Message = tc.cause
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "data", Message: "field is immutable"}}
				return err
			}})
			got := f.run(t.Context(), f.plan([]*resource.Resource{live}, child(tc.child.Type, "c", map[string]any{"k": "new"}))).Results[0]
			require.ErrorContains(t, got.Err, "can't change the immutable field data: ", tc.reason)
			require.ErrorContains(t, got.Err, tc.want, tc.reason)
		})
	}
}
