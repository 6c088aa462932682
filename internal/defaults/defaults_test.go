package defaults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
)

func TestApply(t *testing.T) {
	full := config.Operator{
		Name: "n", Domain: "example.com", TrackingLabel: "a/t", OwnershipLabel: "a/o",
		Finalizer: config.FinalizerNever, MaxErrorBackoff: time.Second, MaxConcurrentSyncs: 1, HandlerTimeout: time.Minute,
	}
	cases := map[string]struct {
		reason   string
		in, want config.Operator
	}{
		"Zero": {
			"everything has a default", config.Operator{},
			config.Operator{
				Domain: "roperator.com", TrackingLabel: "roperator.com/parent-uid", OwnershipLabel: "roperator.com/operator",
				MaxErrorBackoff: 10 * time.Minute, MaxConcurrentSyncs: 16,
			},
		},
		"Domain": {
			"the labels follow the domain", config.Operator{Domain: "example.com"},
			config.Operator{
				Domain: "example.com", TrackingLabel: "example.com/parent-uid", OwnershipLabel: "example.com/operator",
				MaxErrorBackoff: 10 * time.Minute, MaxConcurrentSyncs: 16,
			},
		},
		"Full": {"what is set stays", full, full},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Apply(tc.in), tc.reason)
		})
	}
}
