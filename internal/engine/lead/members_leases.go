package lead

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
)

const (
	// labelFleet is on the Lease of each member and of each shard. It holds the hash of
	// the name of the fleet's Lease.
	labelFleet = config.DefaultDomain + "/shards-of"
	// annotationShards is on the same Leases. It holds the number of shards.
	annotationShards = config.DefaultDomain + "/shards"
	// annotationLeaving is on the Lease of a member that takes no more shards.
	annotationLeaving = config.DefaultDomain + "/leaving"
	// fleetPrefix begins the holder of a fleet's Lease. The number of shards follows.
	fleetPrefix = "shards/"
)

// dividedInto returns the number of shards if a holder is a fleet.
func dividedInto(holder string) (shards int, ok bool) {
	text, ok := strings.CutPrefix(holder, fleetPrefix)
	if !ok {
		return 0, false
	}
	shards, err := strconv.Atoi(text)
	return shards, err == nil && shards > 0
}

// hash returns the FNV-1a hash of a text.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}

// memberName returns the name of the Lease of a member of the fleet called name.
func memberName(name, identity string) string {
	return fmt.Sprintf("%s-member-%016x", name, hash(identity))
}

// shardName returns the name of a shard's Lease.
func shardName(name string, shard int) string { return fmt.Sprintf("%s-shard-%d", name, shard) }

// A part is what the Lease of a shard has besides that of an undivided operator.
type part struct {
	fleet   string // the value of labelFleet
	shards  string // the value of annotationShards
	expired string // the resourceVersion at which the Lease was seen to expire; empty: it wasn't
}

// mark sets the label and the annotation of a Lease as it is about to be written.
func (p *part) mark(lease *coordination.Lease) {
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Labels[labelFleet], lease.Annotations[annotationShards] = p.fleet, p.shards
}

// free takes the holder off a Lease that was read, if this is the very version that was
// seen to expire. An elector that has just begun would else count LeaseDuration once
// more. If the holder has renewed the Lease since the read, the elector's update is
// refused: it names this version.
func (p *part) free(lease *coordination.Lease) {
	if lease != nil && p.expired != "" && lease.ResourceVersion == p.expired {
		lease.Spec.HolderIdentity = nil
	}
}

// A record is what a holder writes into a Lease. It differs after each renewal.
type record struct {
	holder               string
	renewed              int64 // µs since 1970, by the clock of the holder
	seconds, transitions int32
}

func recordOf(lease *coordination.Lease) record {
	r := record{holder: holderOf(lease)}
	if lease.Spec.RenewTime != nil {
		r.renewed = lease.Spec.RenewTime.UnixMicro()
	}
	if lease.Spec.LeaseDurationSeconds != nil {
		r.seconds = *lease.Spec.LeaseDurationSeconds
	}
	if lease.Spec.LeaseTransitions != nil {
		r.transitions = *lease.Spec.LeaseTransitions
	}
	return r
}

// A sighting is what this process has seen of a Lease.
type sighting struct {
	lease *coordination.Lease // as last seen; not to be changed
	since time.Time           // when this process first saw the record that the Lease has
	first bool                // it is the record that this process saw first
}

// unchanged returns for how long this process hasn't seen the Lease change. It is measured
// by the monotonic clock alone: a clock that is set forward must not let a Lease expire
// that is renewed all the time.
func (s *sighting) unchanged() time.Duration { return time.Since(s.since) }

// expired says whether the Lease wasn't renewed for as long as it says, or for
// otherwise if it says nothing. A Lease that wasn't seen has expired.
func (s *sighting) expired(otherwise time.Duration) bool {
	if s == nil {
		return true
	}
	valid := otherwise
	if seconds := recordOf(s.lease).seconds; seconds > 0 {
		valid = time.Duration(seconds) * time.Second
	}
	return s.unchanged() >= valid
}

// next returns what is known of a Lease that was just read, after what was known of it before.
func (s *sighting) next(lease *coordination.Lease) *sighting {
	if s != nil && recordOf(s.lease) == recordOf(lease) {
		return &sighting{lease, s.since, s.first}
	}
	return &sighting{lease, time.Now(), s == nil}
}

// seemsLiving says whether the member seems to live whose Lease it is. Of a record that was there when this
// process came, the clock of the member tells: this process would count one that has died for longer than
// the others do. If that clock is wrong, the member's next renewal tells, and no more than the split is
// wrong until then.
func (s *sighting) seemsLiving(within time.Duration) bool {
	if s.expired(within) {
		return false
	}
	renewed := s.lease.Spec.RenewTime
	return !s.first || renewed == nil || time.Since(renewed.Time) < within
}

// list reads the Leases of all members and shards.
func (m *Members) list(ctx context.Context) error {
	list, err := m.api().List(ctx, metav1.ListOptions{LabelSelector: labelFleet + "=" + m.fleetLabel})
	if err = m.note(ctx, "list", "", err); err != nil {
		return err
	}
	seen := map[string]*sighting{}
	for i := range list.Items {
		lease := &list.Items[i]
		seen[lease.Name] = m.seen[lease.Name].next(lease)
	}
	m.seen = seen
	return nil
}

// othersSeen returns the Leases of the other members that were listed.
func (m *Members) othersSeen() []*sighting {
	var out []*sighting
	for name, s := range m.seen {
		if strings.HasPrefix(name, m.config.Name+"-member-") && name != m.memberName {
			out = append(out, s)
		}
	}
	return out
}

// isOurs says whether the Lease of a member is one of this fleet: another one may have
// another number of shards.
func (m *Members) isOurs(s *sighting) bool {
	return s.lease.Annotations[annotationShards] == m.shardsText
}

// ownLease renews the Lease of this member, or creates it. It returns when the last successful
// renewal began. A member that waits looks at the fleet's Lease twice in RetryPeriod, and
// renews its own once.
func (m *Members) ownLease(ctx context.Context, waits bool) (renewed time.Time, err error) {
	fresh := m.own != nil && elapsed(m.ownSince) < m.config.RetryPeriod*3/4 && m.isLeaving() == (m.own.Annotations[annotationLeaving] != "")
	if waits && fresh {
		return m.ownSince, nil
	}
	begin := time.Now()
	if err = m.renewMember(ctx); err == nil {
		m.ownSince = begin
	}
	return begin, err
}

// renewMember makes the requests of ownLease.
func (m *Members) renewMember(ctx context.Context) (err error) {
	for range attempts {
		if m.own == nil {
			m.own, err = m.api().Get(ctx, m.memberName, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				m.own = nil
				err = m.createMember(ctx)
				if apierrors.IsAlreadyExists(err) {
					continue
				}
				return err
			case err != nil:
				m.own = nil
				return m.note(ctx, "get", m.memberName, err)
			}
			_ = m.note(ctx, "get", m.memberName, nil)
		}
		written, err := m.api().Update(ctx, m.describe(m.own.DeepCopy()), metav1.UpdateOptions{})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			m.own = nil // somebody has changed or deleted it
			continue
		}
		if err = m.note(ctx, "update", m.memberName, err); err == nil {
			m.own = written
		}
		return err
	}
	return m.note(ctx, "update", m.memberName, errChanging)
}

// createMember creates the Lease of this member.
func (m *Members) createMember(ctx context.Context) error {
	lease := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: m.config.Namespace, Name: m.memberName}}
	created, err := m.api().Create(ctx, m.describe(lease), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return err
	case apierrors.IsNotFound(err): // the namespace, as nothing else can be missing
		err = fmt.Errorf("%w; create the namespace, or name that of the deployed operator by --leader-elect-resource-namespace", err)
		m.refuse(fmt.Errorf("Lease %s/%s: create: %w", m.config.Namespace, m.memberName, err))
		return err
	}
	if err = m.note(ctx, "create", m.memberName, err); err == nil {
		m.own = created
	}
	return err
}

// describe writes into the Lease of this member what the others are to know, and returns it.
func (m *Members) describe(lease *coordination.Lease) *coordination.Lease {
	now, seconds := metav1.NewMicroTime(time.Now()), int32(m.config.LeaseDuration/time.Second)
	m.newPart("").mark(lease)
	delete(lease.Annotations, annotationLeaving)
	if m.isLeaving() {
		lease.Annotations[annotationLeaving] = "true"
	}
	if holderOf(lease) != m.config.Identity {
		lease.Spec.AcquireTime = &now
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &m.config.Identity, &seconds, &now
	return lease
}

// deleteStale deletes the Leases of members that have ended long ago.
func (m *Members) deleteStale(ctx context.Context) {
	for _, s := range m.othersSeen() {
		if s.unchanged() <= 2*m.config.LeaseDuration || !s.expired(m.config.LeaseDuration) {
			continue
		}
		err := m.api().Delete(ctx, s.lease.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &s.lease.UID, ResourceVersion: &s.lease.ResourceVersion},
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another member has deleted it, or it lives again
			err = nil
		}
		_ = m.note(ctx, "delete", s.lease.Name, err)
	}
}

// note notes the result of a request, and returns its error with what was asked for. It
// logs an error unless the last request of its kind failed with the same one. If RBAC
// forbids what it has never allowed, and this process has never held a shard, note passes
// the error on to Run.
func (m *Members) note(ctx context.Context, verb, name string, err error) error {
	what := verb + " " + name
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.mu.failures, what)
		if verb != "delete" { // each stale Lease has a name of its own
			m.mu.rights.allow(what)
		}
		return nil
	}
	subject := "Lease " + m.config.Namespace + "/" + name
	if name == "" {
		subject = "Leases in " + m.config.Namespace
	}
	rule := apierror.WithRule(err, apierror.Request{Verb: verb, Group: coordination.GroupName, Resource: "leases", Name: name})
	told := fmt.Errorf("%s: %s: %w", subject, verb, rule)
	if ctx.Err() != nil {
		return told
	}
	m.mu.Lock()
	news := m.mu.failures[what] != err.Error()
	never := apierrors.IsForbidden(err) && verb != "delete" && !m.mu.ever && m.mu.rights.deny(what)
	m.mu.failures[what] = err.Error()
	m.mu.Unlock()
	switch {
	case never:
		m.refuse(told)
	case news:
		m.log.WarnContext(ctx, "lease request failed, retrying", "request", what, "error", rule)
	}
	return told
}
