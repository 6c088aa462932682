// Package defaults knows the defaults of config.Operator, which runner and
// testkit share.
package defaults

import (
	"time"

	"github.com/roperator/roperator/config"
)

const (
	// MaxErrorBackoff is the default of config.Operator.MaxErrorBackoff.
	MaxErrorBackoff = 10 * time.Minute
	// MaxConcurrentSyncs is the default of config.Operator.MaxConcurrentSyncs.
	MaxConcurrentSyncs = 16
	// ShutdownTimeout is the default of runner.Options.ShutdownTimeout.
	ShutdownTimeout = 30 * time.Second
)

// Apply returns a copy of o in which each field that has a default is set. The
// slices are shared with o.
func Apply(o config.Operator) config.Operator {
	if o.Domain == "" {
		o.Domain = config.DefaultDomain
	}
	if o.TrackingLabel == "" {
		o.TrackingLabel = o.Domain + "/parent-uid"
	}
	if o.OwnershipLabel == "" {
		o.OwnershipLabel = o.Domain + "/operator"
	}
	if o.MaxErrorBackoff == 0 {
		o.MaxErrorBackoff = MaxErrorBackoff
	}
	if o.MaxConcurrentSyncs == 0 {
		o.MaxConcurrentSyncs = MaxConcurrentSyncs
	}
	return o
}
