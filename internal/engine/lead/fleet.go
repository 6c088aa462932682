package lead

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attempts is how often a Lease is read and written again at once, if others have changed it
// in between.
const attempts = 5

// errChanging is the error of a renewal that others got ahead of too often.
var errChanging = errors.New("others have changed it each time before this process could")

// keep renews the Lease of this member and the fleet's until ctx ends.
func (m *Members) keep(ctx context.Context) {
	for ctx.Err() == nil {
		pause := m.config.RetryPeriod
		if !m.round(ctx) {
			pause /= 2
		}
		m.pause(ctx, pause, m.kicked)
	}
}

// round renews the Leases once. It says whether the fleet's Lease is held now.
//
// A member that joins renews its own Lease first. Later the order doesn't matter. In either
// case the round counts only if both were renewed, and from when the first of the two
// renewals began.
func (m *Members) round(ctx context.Context) (held bool) {
	begin, t := time.Now(), m.present()
	var own, fleets error
	var ok bool
	switch {
	case t == nil:
		return false // Run is about to open the first term
	case t.settle():
		_, own = m.ownLease(ctx, true) // work of the term has yet to end
	case t.hasBegun():
		var both sync.WaitGroup
		both.Go(func() { _, own = m.ownLease(ctx, false) })
		ok, fleets = m.renewFleet(ctx, t)
		both.Wait()
	default:
		if begin, own = m.ownLease(ctx, true); own == nil {
			ok, fleets = m.renewFleet(ctx, t)
		}
	}
	err := errors.Join(own, fleets)
	if held = ok && err == nil; held {
		t.renew(begin)
	}
	if ctx.Err() == nil {
		m.mu.Lock()
		m.mu.failure = err
		m.mu.Unlock()
	}
	return held
}

// renewFleet takes or renews the fleet's Lease for the present members. It returns false
// if others have it. If it was taken from the members, the term ends.
func (m *Members) renewFleet(ctx context.Context, t *term) (ok bool, err error) {
	for range attempts {
		lease, err := m.readFleet(ctx)
		if err != nil {
			return false, err
		}
		if lease == nil {
			lease = &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: m.config.Namespace, Name: m.config.Name}}
			_, err = m.api().Create(ctx, m.hold(lease), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				continue
			}
			return err == nil, m.noteFleet(ctx, "create", err)
		}
		if holder := holderOf(lease); holder != "" && holder != m.holder {
			if t.hasBegun() {
				t.lose(fmt.Errorf("Lease %s: lost: %s took it; was the Lease deleted or changed by hand?", m.Key(), holder))
				return false, nil
			}
			if !m.fleetSeen.expired(m.config.LeaseDuration) {
				return false, nil
			}
		}
		_, err = m.api().Update(ctx, m.hold(lease), metav1.UpdateOptions{})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // most likely another member has renewed it
			continue
		}
		return err == nil, m.noteFleet(ctx, "update", err)
	}
	return false, m.note(ctx, "update", m.config.Name, errChanging)
}

// noteFleet notes the result of a write with which the members take or renew the fleet's Lease.
func (m *Members) noteFleet(ctx context.Context, verb string, err error) error {
	if err == nil {
		m.look(ctx, m.holder, time.Now())
	}
	return m.note(ctx, verb, m.config.Name, err)
}

// readFleet reads the fleet's Lease. It returns nil if there is none.
func (m *Members) readFleet(ctx context.Context) (*coordination.Lease, error) {
	begin := time.Now()
	lease, err := m.api().Get(ctx, m.config.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		m.fleetSeen = nil
		m.look(ctx, "", begin)
		return nil, m.note(ctx, "get", m.config.Name, nil)
	}
	if err = m.note(ctx, "get", m.config.Name, err); err != nil {
		return nil, err
	}
	m.fleetSeen = m.fleetSeen.next(lease)
	m.look(ctx, holderOf(lease), begin)
	return lease, nil
}

// look notes who holds the fleet's Lease.
func (m *Members) look(ctx context.Context, holder string, at time.Time) {
	m.mu.Lock()
	news := holder != m.mu.holder
	m.mu.holder, m.mu.looked = holder, at
	m.mu.Unlock()
	if news && holder != "" && holder != m.holder {
		m.log.InfoContext(ctx, "waiting: the lease is held by another", "holder", holder)
	}
}

// hold makes the members the holder of the fleet's Lease as it is about to be written, and
// returns it.
func (m *Members) hold(lease *coordination.Lease) *coordination.Lease {
	now, seconds, transitions := metav1.NewMicroTime(time.Now()), int32(m.config.LeaseDuration/time.Second), int32(0)
	if last := lease.Spec.RenewTime; last != nil && last.UnixMicro() == now.UnixMicro() {
		// Another member has renewed the Lease in the same microsecond. An update that
		// changes nothing gives the Lease no new resourceVersion, which release counts on.
		now.Time = now.Add(time.Microsecond)
	}
	if lease.Spec.LeaseTransitions != nil {
		transitions = *lease.Spec.LeaseTransitions
	}
	if holderOf(lease) != m.holder {
		if lease.ResourceVersion != "" {
			transitions++
		}
		lease.Spec.AcquireTime = &now
	}
	for _, talk := range []string{annotationYields, annotationRequest, annotationTaken} {
		delete(lease.Annotations, talk) // it was about who held the Lease before
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &m.holder, &seconds
	lease.Spec.RenewTime, lease.Spec.LeaseTransitions = &now, &transitions
	return lease
}

// Joined returns nil if this process knows who leads: it is one of the members that do, or
// waits since the Lease is held by a process that divides the parents otherwise. Else it
// returns an error that says why not.
func (m *Members) Joined() error {
	t := m.present()
	if t == nil {
		return fmt.Errorf("Lease %s: this process has not begun to take part", m.Key())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	others := m.mu.holder != "" && m.mu.holder != m.holder
	switch {
	case t.held():
		return nil
	case others && elapsed(m.mu.looked) < m.config.RenewDeadline:
		return nil
	case m.mu.failure != nil:
		return m.mu.failure
	case t.settle():
		return fmt.Errorf("Lease %s: it was lost, and the work of this process has yet to end", m.Key())
	}
	return fmt.Errorf("Lease %s: not held yet", m.Key())
}

// Seen returns who was last seen to hold the fleet's Lease, "" if nobody was, and when this
// process last renewed it, the zero time if it doesn't hold it.
func (m *Members) Seen() (holder string, renewed time.Time) {
	if t := m.present(); t != nil && t.held() {
		renewed = t.lastRenewed()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.holder, renewed
}
