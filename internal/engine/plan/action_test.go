package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
)

// TestComparisonIsOfItsObjects: what was found about two objects says nothing of others, nor of
// another comparison of these two.
func TestComparisonIsOfItsObjects(t *testing.T) {
	live, other := sample.Object(t, sample.ParentType(), "p", "p", 1, ""), sample.Object(t, sample.ParentType(), "p", "p", 2, "")
	want := &Desired{}
	c := comparison{live: live, want: want, former: true, object: map[string]any{"which": "live"}}
	for name, tc := range map[string]struct {
		live   *resource.Resource
		want   *Desired
		former bool
		same   bool
	}{
		"the same":       {live, want, true, true},
		"another state":  {other, want, true, false},
		"another wish":   {live, &Desired{}, true, false},
		"without former": {live, want, false, false},
	} {
		require.Equal(t, tc.same, c.of(tc.live, tc.want, tc.former), name)
	}
	require.False(t, (&comparison{}).of(nil, nil, false), "nothing was compared")
	require.Equal(t, c.object, (&Action{Live: live, compared: c}).LiveObject(), "it isn't decoded again")
	require.NotEqual(t, c.object, (&Action{Live: other, compared: c}).LiveObject())
}
