package reconcile

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJoinNames(t *testing.T) {
	long := slices.Repeat([]string{strings.Repeat("x", 253)}, 10)
	for name, tc := range map[string]struct {
		reason string
		names  []string
		want   string
	}{
		"one":  {"nothing more", []string{"a"}, "a"},
		"two":  {"nothing more", []string{"a", "b"}, "a, b"},
		"long": {"what an Event takes", long, strings.Join(long[:3], ", ") + " and 7 more"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, joinNames(tc.names), tc.reason) })
	}
}
