package lead

import (
	"context"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/roperator/roperator/internal/engine/revision"
)

// Compare has each write of the Lease compared with what is known of the versions of Leases: a
// renewal shows within seconds that etcd was restored. It is called before Run.
func (l *Lease) Compare(known *revision.Type) { l.known = known }

// Compare is Lease.Compare for all Leases that this member writes.
func (m *Members) Compare(known *revision.Type) { m.known = known }

// A comparingRequests makes requests about the Leases of a namespace, and compares the responses to
// writes. Each changes the time of the renewal, so it is persisted. The response is returned also if it
// shows a restore: the process ends, and releases its Leases.
type comparingRequests struct {
	coordinationv1.LeaseInterface
	known *revision.Type
}

// Create creates a Lease.
func (c comparingRequests) Create(ctx context.Context, lease *coordination.Lease, opts metav1.CreateOptions) (*coordination.Lease, error) {
	since := c.known.Newest()
	live, err := c.LeaseInterface.Create(ctx, lease, opts)
	c.compare(since, "", live, err)
	return live, err
}

// Update updates a Lease.
func (c comparingRequests) Update(ctx context.Context, lease *coordination.Lease, opts metav1.UpdateOptions) (*coordination.Lease, error) {
	since, version := c.known.Newest(), lease.ResourceVersion
	live, err := c.LeaseInterface.Update(ctx, lease, opts)
	c.compare(since, version, live, err)
	return live, err
}

// compare compares the response to a write of this version.
func (c comparingRequests) compare(since uint64, version string, live *coordination.Lease, err error) {
	if err == nil {
		_ = c.known.CompareWrite(since, version, live.ResourceVersion) // which ends the process
	}
}
