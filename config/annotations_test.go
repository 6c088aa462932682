package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
)

func TestAnnotations(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, domain, want string
	}{
		"Default": {"an operator that sets no Domain", "", "roperator.com"},
		"Domain":  {"each Domain has its own", "shop.example.com", "shop.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			o := config.Operator{Domain: tc.domain}
			require.Equal(t, tc.want+"/paused", o.PausedAnnotation(), tc.reason)
			require.Equal(t, tc.want+"/applied", o.AppliedAnnotation(), tc.reason)
			require.Equal(t, tc.want+"/bucket", o.BucketLabel(), tc.reason)
			require.Equal(t, tc.want+"/adopt", o.AdoptAnnotation(), tc.reason)
		})
	}
}
