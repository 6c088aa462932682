package lead

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestConfig(t *testing.T) {
	full := Config{}.WithDefaults("op")
	require.Equal(t, types.NamespacedName{Namespace: "default", Name: "op"}, types.NamespacedName{Namespace: full.Namespace, Name: full.Name})
	require.NotEqual(t, full.Identity, Config{}.WithDefaults("op").Identity)
	for name, tc := range map[string]struct {
		reason   string
		settings *Config
		err      string
	}{
		"Defaults": {reason: "usable", settings: &Config{}},
		"Negative": {reason: "makes no sense", settings: &Config{RetryPeriod: -1}, err: "negative"},
		"Deadline": {reason: "another could take over before", settings: &Config{RenewDeadline: 15 * time.Second}, err: "LeaseDuration, 15s, must be longer than RenewDeadline, 15s"},
		"Retry":    {reason: "it must be possible to retry", settings: &Config{RetryPeriod: 9 * time.Second}, err: "RenewDeadline, 10s, must be longer than 1.2 times RetryPeriod, 9s"},
		"Short": {
			reason:   "it would be rounded to nothing",
			settings: &Config{LeaseDuration: 900 * time.Millisecond, RenewDeadline: 500 * time.Millisecond, RetryPeriod: 100 * time.Millisecond}, err: "LeaseDuration, 900ms, must be in whole seconds",
		},
		"Parts of seconds": {
			reason:   "the Lease would say 1 s, and another replica take over while this one leads",
			settings: &Config{LeaseDuration: 1990 * time.Millisecond, RenewDeadline: 1900 * time.Millisecond, RetryPeriod: 100 * time.Millisecond}, err: "LeaseDuration, 1.99s, must be in whole seconds",
		},
		"Others in parts of seconds": {
			reason:   "only the LeaseDuration is written",
			settings: &Config{LeaseDuration: 2 * time.Second, RenewDeadline: 1900 * time.Millisecond, RetryPeriod: 100 * time.Millisecond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.settings.Validate()
			if tc.err == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.err, tc.reason)
			}
		})
	}
}
