package plan

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource/k8s"
)

// TestFailure_ChildError: a handler is told the verbs that handler.ChildError documents, whatever the engine did.
func TestFailure_ChildError(t *testing.T) {
	ref := object.Ref{Type: k8s.ConfigMap, Key: types.NamespacedName{Namespace: "ns", Name: "one"}}
	documented := []Verb{VerbCreate, VerbUpdate, VerbApply, VerbRecreate, VerbDelete}
	for _, verb := range []Verb{VerbCreate, VerbUpdate, VerbApply, VerbRecreate, VerbDelete, VerbAdopt, VerbMark, VerbMend, VerbRelease, VerbRetain} {
		told := Failure{Ref: ref, Verb: verb, Err: errors.New("ConfigMap ns/one: " + string(verb) + ": no")}.ChildError()
		require.Contains(t, documented, Verb(told.Verb), verb)
		require.Equal(t, "no", told.Message)
		if slices.Contains(documented, verb) {
			require.Equal(t, string(verb), told.Verb)
		}
	}
}
