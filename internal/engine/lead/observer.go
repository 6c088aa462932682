package lead

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/apierror"
)

// A Standing says whether somebody holds a Lease.
type Standing string

// The values of Standing.
const (
	Missing Standing = "missing" // there is no Lease: nobody has elected a leader
	Free    Standing = "free"    // it is nobody's
	Claimed Standing = "claimed" // it has a holder, who may still be there
	Renewed Standing = "renewed" // its holder has renewed it since the first look
	Expired Standing = "expired" // its holder hasn't renewed it in time
)

// Runs says whether an operator may work.
func (s Standing) Runs() bool { return s == Claimed || s == Renewed }

// An Observer looks at a Lease, and takes no part in the election. Its methods aren't meant
// for concurrent use.
type Observer struct {
	lease *Lease // never held, and never asked for

	holder  string    // as last seen
	renewed time.Time // as last seen, by the holder's clock
	since   time.Time // when that was first seen, by our own
	moved   bool      // it has changed since the first look
}

// NewObserver returns an observer of the Lease that NewLease takes these arguments for. It
// makes no request.
func NewObserver(config Config, rc *rest.Config, httpClient *http.Client) (*Observer, error) {
	l, err := NewLease(config, rc, httpClient, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return &Observer{lease: l}, nil
}

// Holder returns the identity of who was last seen to hold the Lease, "" if nobody was.
func (o *Observer) Holder() string { return o.holder }

// Look reads the Lease. The clocks of others count for nothing: that the Lease has expired
// is known once this process hasn't seen it renewed for as long as it says.
func (o *Observer) Look(ctx context.Context) (Standing, error) {
	config := o.lease.config
	read, err := o.lease.leases.Leases(config.Namespace).Get(ctx, config.Name, metav1.GetOptions{})
	if apierror.IsMissing(err, config.Name) {
		o.holder = ""
		return Missing, nil
	}
	if err != nil {
		return "", fmt.Errorf("Lease %s: get: %w", o.lease.Describe(), apierror.WithRule(err, o.lease.request("get")))
	}
	return o.see(read), nil
}

// see returns how a Lease stands that was just read.
func (o *Observer) see(lease *coordination.Lease) Standing {
	holder, renewed, valid := holderOf(lease), time.Time{}, time.Duration(0)
	if lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	if lease.Spec.LeaseDurationSeconds != nil {
		valid = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	if first := o.since.IsZero(); first || holder != o.holder || !renewed.Equal(o.renewed) {
		o.moved = !first
		o.holder, o.renewed, o.since = holder, renewed, time.Now()
	}
	switch {
	case holder == "":
		return Free
	case elapsed(o.since) >= valid:
		return Expired
	case o.moved:
		return Renewed
	}
	return Claimed
}

// Await looks at the Lease until it is known whether an operator works, which takes up to
// LeaseDuration.
func (o *Observer) Await(ctx context.Context) (Standing, error) {
	for {
		s, err := o.Look(ctx)
		if err != nil || s != Claimed {
			return s, err
		}
		timer := time.NewTimer(o.lease.config.RetryPeriod / 2)
		select {
		case <-ctx.Done():
			timer.Stop()
			return s, fmt.Errorf("Lease %s: %w", o.lease.Describe(), context.Cause(ctx))
		case <-timer.C:
		}
	}
}
