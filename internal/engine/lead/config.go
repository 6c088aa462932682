package lead

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/roperator/roperator/internal/process"
)

// A Config says how the replicas of an operator take turns. runner.LeaderElection
// documents the fields and their defaults for users.
type Config struct {
	Namespace, Name string // of the Lease; empty: the Pod's namespace or "default", and the operator's name
	Identity        string // of this process in the Lease; empty: the host's name and a random UUID

	LeaseDuration time.Duration // how long another replica waits after the last renewal, in whole seconds; 0: 15 s
	RenewDeadline time.Duration // how long this process leads after the last renewal; 0: 10 s
	RetryPeriod   time.Duration // about how often the Lease is renewed; 0: 2 s
}

// WithDefaults returns the configuration for an operator, with every default filled
// in. Without an Identity, each call makes another one.
func (c Config) WithDefaults(operator string) Config {
	if c.Namespace == "" {
		c.Namespace = process.PodNamespace()
	}
	if c.Namespace == "" {
		c.Namespace = metav1.NamespaceDefault
	}
	if c.Name == "" {
		c.Name = operator
	}
	if c.Identity == "" {
		c.Identity = process.Hostname() + "_" + string(uuid.NewUUID())
	}
	if c.LeaseDuration == 0 {
		c.LeaseDuration = 15 * time.Second
	}
	if c.RenewDeadline == 0 {
		c.RenewDeadline = 10 * time.Second
	}
	if c.RetryPeriod == 0 {
		c.RetryPeriod = 2 * time.Second
	}
	return c
}

// Validate returns an error if the durations of the configuration, with defaults,
// don't fit together.
func (c Config) Validate() error {
	full := c.WithDefaults("operator")
	switch {
	case full.LeaseDuration < 0 || full.RenewDeadline < 0 || full.RetryPeriod < 0:
		return errors.New("runner: LeaderElection: a duration is negative")
	case full.LeaseDuration <= full.RenewDeadline:
		return fmt.Errorf("runner: LeaderElection: LeaseDuration, %v, must be longer than RenewDeadline, %v", full.LeaseDuration, full.RenewDeadline)
	case float64(full.RenewDeadline) <= leaderelection.JitterFactor*float64(full.RetryPeriod):
		return fmt.Errorf("runner: LeaderElection: RenewDeadline, %v, must be longer than %v times RetryPeriod, %v",
			full.RenewDeadline, leaderelection.JitterFactor, full.RetryPeriod)
	case full.LeaseDuration%time.Second != 0:
		// A Lease would have the duration without its parts of seconds. The other
		// replicas would wait for less time than this process leads.
		return fmt.Errorf("runner: LeaderElection: LeaseDuration, %v, must be in whole seconds: a Lease counts in seconds", full.LeaseDuration)
	}
	return nil
}
