package apply

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource/k8s"
)

func createOf(name string) *plan.Action {
	return &plan.Action{Verb: plan.VerbCreate, Ref: object.Ref{Type: k8s.ConfigMap, Key: types.NamespacedName{Name: name}}}
}

func rejectedBy(text string) *Result {
	return &Result{Err: &apierror.RefusedError{Err: errors.New(text)}}
}

// Three rejections for one reason, the last of them of the probe, hold the rest. A probe that ends in any other way holds
// nothing.
func TestSlowStart_Probe(t *testing.T) {
	quota := func(name string) *Result {
		return rejectedBy(fmt.Sprintf("configmaps %q is forbidden: used: 12", name))
	}
	for name, tc := range map[string]struct {
		reason string
		probe  *Result
		held   bool
	}{
		"Rejected":      {"it is the fourth of one reason", quota("2"), true},
		"Conflict":      {"a newer state is awaited, which says nothing of the quota", &Result{Await: true}, false},
		"No connection": {"the API server has not said no", &Result{Err: errors.New("connection lost")}, false},
		"Name taken":    {"names are taken one by one", &Result{Err: &apierror.RefusedError{Err: &NameTakenError{}}}, false},
		"Accepted":      {"the quota has room", &Result{Wrote: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := &Executor{}
			for i := range 3 {
				a := createOf(fmt.Sprint(i))
				require.NoError(t, x.slowStartOf(a).admit(t.Context(), a))
				x.note(a, quota(a.Ref.Key.Name))
			}
			if x.held() != nil { // the third was a probe
				x.again([]plan.Action{*createOf("any")})
			}
			require.Nil(t, x.held())
			a := createOf("2")
			require.NoError(t, x.slowStartOf(a).admit(t.Context(), a))
			x.note(a, tc.probe)
			require.Equal(t, tc.held, x.held() != nil, tc.reason)
		})
	}
}

// Another batch stays held while one is tried again.
func TestSlowStart_Again(t *testing.T) {
	x := &Executor{}
	gone := createOf("gone")
	gone.Verb = plan.VerbDelete
	for _, a := range []*plan.Action{createOf("a"), gone} {
		for range 4 {
			if x.slowStartOf(a).admit(t.Context(), a) == nil {
				x.note(a, rejectedBy("no"))
			}
		}
	}
	require.Len(t, x.held(), 2)
	x.again([]plan.Action{*createOf("b")})
	require.Len(t, x.held(), 1)
	require.Contains(t, x.held(), plan.BatchOf(gone))
}

func TestWithoutName(t *testing.T) {
	for _, tc := range []struct{ text, name, want, reason string }{
		{`pods "a" is forbidden`, "a", `pods "" is forbidden`, "the API server quotes it"},
		{"no room for 1: used 12", "1", "no room for : used 12", "it is no part of a number"},
		{"web-0 of web", "web", "web-0 of ", "nor of a longer name"},
		{"a.b and axb", "a.b", " and axb", "a dot is a dot"},
	} {
		require.Equal(t, tc.want, withoutName(tc.text, tc.name), tc.reason)
	}
}
