package lead

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resign takes this process off the members, and releases the fleet's Lease if nobody is
// left. All work has ended, and nothing is renewed any more. An error changes nothing: the
// Leases expire.
func (m *Members) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.config.RenewDeadline)
	defer cancel()
	if err := m.api().Delete(ctx, m.memberName, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		_ = m.note(ctx, "delete", m.memberName, err)
	}
	for range attempts {
		if !apierrors.IsConflict(m.release(ctx)) {
			return
		}
	}
}

// release releases the fleet's Lease unless another member is left, or may be. It returns a
// conflict if somebody has changed the Lease meanwhile.
//
// No member may hold the Lease after it was released. A member holds it from a renewal on
// that came after it had renewed its own Lease (see term), so there are two cases:
//
//   - The member has renewed the fleet's Lease before release read it. Then its own Lease was
//     there before the list below, and as long as the member holds the fleet's Lease, nobody
//     has seen its own expire. So it is listed, and nothing is released.
//   - It has renewed the fleet's Lease later. Then the update below has an old
//     resourceVersion, and is refused.
//
// Of two members that leave at the same time, the one that deletes its own Lease last finds
// none of the other. So one of them releases the Lease.
func (m *Members) release(ctx context.Context) error {
	lease, err := m.readFleet(ctx)
	if err != nil || lease == nil || holderOf(lease) != m.holder {
		return err
	}
	if err := m.list(ctx); err != nil || m.isOthers() {
		return err
	}
	nobody, now, seconds := "", metav1.NewMicroTime(time.Now()), int32(1)
	lease = lease.DeepCopy()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &nobody, &seconds
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
	_, err = m.api().Update(ctx, lease, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return err
	}
	if err = m.note(ctx, "update", m.config.Name, err); err == nil {
		m.look(ctx, "", now.Time)
	}
	return err
}

// isOthers says whether another member of this fleet was listed that may still work. It looks
// at the Leases of the shards, too, since somebody may have deleted that of a member.
func (m *Members) isOthers() bool {
	for _, s := range m.othersSeen() {
		if m.isOurs(s) && !s.expired(m.config.LeaseDuration) {
			return true
		}
	}
	for shard := range m.shards {
		s := m.seen[shardName(m.config.Name, shard)]
		if s == nil {
			continue
		}
		if holder := holderOf(s.lease); holder != "" && holder != m.config.Identity && !s.expired(m.config.LeaseDuration) {
			return true
		}
	}
	return false
}
