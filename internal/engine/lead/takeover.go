package lead

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/roperator/roperator/config"
)

// A process can ask for a lease that another one holds. The holder ends its passes and
// writes the other's identity into the Lease in the place of its own, so that no replica
// can come between. From then on the process that has asked holds the lease as any leader
// does: if it doesn't renew the lease, a replica takes over after LeaseDuration.
//
// Annotations of the Lease carry the talk. Each of them names an identity, and counts
// only as long as the Lease bears it out. Builds that don't know them keep what they find.
const (
	// annotationYields holds the identity of a leader that heeds a request.
	annotationYields = config.DefaultDomain + "/yields-to-takeover"
	// annotationRequest holds the claim of the process that asks for the lease.
	annotationRequest = config.DefaultDomain + "/takeover"
	// annotationTaken holds the claim of a leader that has asked for the lease, and
	// that doesn't heed requests of others.
	annotationTaken = config.DefaultDomain + "/taken-over"
)

// ErrYielded is the error of Run if another process has asked for the lease. It has the
// lease then, and all of the work has ended: this process may wait for the lease anew.
var ErrYielded = errors.New("lease: yielded to a process that has asked for it")

// ErrGivenAway is the error of Run if GiveAway was called. The lease is free then, and all of
// the work has ended: this process may wait for the lease anew, after the other replicas.
var ErrGivenAway = errors.New("lease: given away")

// GiveAway has Run end the work, release the lease for the other replicas, and return
// ErrGivenAway. It may be called while the work of Run is under way.
func (l *Lease) GiveAway() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.yieldLocked(ErrGivenAway)
}

// yieldLocked has Run end the work, and return why. It reports whether that is news.
func (l *Lease) yieldLocked(why error) bool {
	if l.mu.yields != nil {
		return false
	}
	l.mu.yields = why
	close(l.asked)
	return true
}

// A claim says who wants a lease, or has taken it.
type claim struct {
	Identity string    `json:"identity"` // as in the Lease
	By       string    `json:"by"`       // for people
	Since    time.Time `json:"since"`
}

// claimOf returns the claim in an annotation of a Lease, false if there is none that can
// be read.
func claimOf(lease *coordination.Lease, annotation string) (claim, bool) {
	var c claim
	text, ok := lease.Annotations[annotation]
	if !ok || json.Unmarshal([]byte(text), &c) != nil || c.Identity == "" {
		return claim{}, false
	}
	return c, true
}

// holderOf returns the identity of the process that holds a Lease, "" if none does.
func holderOf(lease *coordination.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// TakeOver makes this process ask for the lease if another one holds it. by says for
// people who asks. It must be called before Run. Run calls fatal if the holder doesn't heed
// requests: it is a build that doesn't know them, or has taken the lease over itself.
func (l *Lease) TakeOver(by string) {
	l.own = claim{Identity: l.Identity(), By: by, Since: time.Now().UTC().Truncate(time.Second)}
}

// takesOver says whether TakeOver was called.
func (l *Lease) takesOver() bool { return l.own.Identity != "" }

// mark sets the annotations of a Lease as it is about to be written, and the holder if
// the lease is released to a process that has asked for it.
func (l *Lease) mark(lease *coordination.Lease) error {
	if l.part != nil {
		l.part.mark(lease)
		return nil
	}
	request, asked := claimOf(lease, annotationRequest)
	holder := holderOf(lease)
	leads := holder == l.Identity()
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	if !leads || l.takesOver() {
		delete(lease.Annotations, annotationYields)
	}
	if !leads || !l.Held() { // at the beginning and at the end: a request that is older is nobody's
		delete(lease.Annotations, annotationRequest)
	}
	delete(lease.Annotations, annotationTaken)
	switch {
	case leads && l.takesOver():
		text, err := json.Marshal(l.own)
		if err != nil {
			return fmt.Errorf("takeover: %w", err)
		}
		lease.Annotations[annotationTaken] = string(text)
	case leads:
		lease.Annotations[annotationYields] = l.Identity()
	case holder == "" && asked && l.yields() != nil:
		seconds := int32(l.config.LeaseDuration / time.Second)
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &request.Identity, &seconds
	}
	return nil
}

// heed has this process give the lease up if it holds the lease, and another process asks
// for it.
func (l *Lease) heed(ctx context.Context, lease *coordination.Lease) {
	request, asked := claimOf(lease, annotationRequest)
	if !asked || l.takesOver() || request.Identity == l.Identity() || holderOf(lease) != l.Identity() || !l.Held() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.yieldLocked(ErrYielded) {
		l.log.InfoContext(ctx, "yielding: the lease is taken over", "by", request.By, "taker", request.Identity)
	}
}

// yields returns why this process ends its work though it holds the lease: ErrYielded or
// ErrGivenAway. It returns nil if it doesn't.
func (l *Lease) yields() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.yields
}

// ask asks the holder of a Lease for it, unless that was done, or somebody else has asked.
// It passes an error to Run if the holder won't heed that.
func (l *Lease) ask(ctx context.Context, api coordinationv1.LeaseInterface, lease *coordination.Lease) {
	holder := holderOf(lease)
	if !l.takesOver() || holder == "" || holder == l.Identity() {
		return
	}
	alive := l.seesRenewals(lease)
	if lease.Annotations[annotationYields] != holder {
		if alive {
			l.refuse(l.unheeded(lease))
		}
		return // it may have ended: then the lease expires
	}
	if _, asked := claimOf(lease, annotationRequest); asked {
		return
	}
	text, err := json.Marshal(l.own)
	if err != nil {
		l.refuse(fmt.Errorf("Lease %s: takeover: %w", l.Describe(), err))
		return
	}
	wanted := lease.DeepCopy()
	wanted.Annotations[annotationRequest] = string(text)
	_, err = api.Update(ctx, wanted, metav1.UpdateOptions{})
	if err == nil {
		l.log.InfoContext(ctx, "asked the leader for the lease; it ends its passes first", "holder", holder)
	}
	if !apierrors.IsConflict(err) { // the leader has renewed the lease meanwhile: the next read asks anew
		l.noteFailure(ctx, "update", err)
	}
}

// seesRenewals says whether the holder of a Lease has renewed it since this process reads
// it. Only the election calls it.
func (l *Lease) seesRenewals(lease *coordination.Lease) bool {
	holder, renewed := holderOf(lease), time.Time{}
	if lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	if l.first.holder != holder {
		l.first.holder, l.first.renewed = holder, renewed
		return false
	}
	return !renewed.Equal(l.first.renewed)
}

// unheeded returns the error about a holder that heeds no request.
func (l *Lease) unheeded(lease *coordination.Lease) error {
	holder := holderOf(lease)
	if n, divided := dividedInto(holder); divided {
		return fmt.Errorf("Lease %s: the operator is divided into %d shards, and its members hold the lease together, so that none of them can hand it over; "+
			"scale the deployed operator to zero first", l.Describe(), n)
	}
	if taken, ok := claimOf(lease, annotationTaken); ok && taken.Identity == holder {
		return fmt.Errorf("Lease %s: %s has taken it over, since %s; it is free again when that process ends",
			l.Describe(), taken.By, taken.Since.Format(time.RFC3339))
	}
	return fmt.Errorf("Lease %s: its holder, %s, can't be asked for it: it is an older build, or no operator of this library; "+
		"deploy a build that can, or scale the deployed operator to zero", l.Describe(), holder)
}

// refuse passes an error on to Run.
func (l *Lease) refuse(err error) {
	select {
	case l.refused <- err:
	default:
	}
}

// withdraw takes back what this process has asked for, if the holder hasn't heeded it yet.
// It makes no request if this process takes nothing over, and an error changes nothing:
// the lease expires if it is given to a process that has ended.
func (l *Lease) withdraw(ctx context.Context) {
	if !l.takesOver() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(l.config.RetryPeriod, time.Second))
	defer cancel()
	api := l.leases.Leases(l.config.Namespace)
	for {
		lease, err := api.Get(ctx, l.config.Name, metav1.GetOptions{})
		if err != nil {
			return
		}
		if request, asked := claimOf(lease, annotationRequest); !asked || request.Identity != l.Identity() {
			return
		}
		delete(lease.Annotations, annotationRequest)
		if _, err = api.Update(ctx, lease, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return
		}
	}
}

// The types below stand between the election and the API server, since the election
// doesn't show the annotations of the Lease.

// An annotatedLeases gives access to Leases, and has a Lease read and write the
// annotations.
type annotatedLeases struct {
	coordinationv1.LeasesGetter
	lease *Lease
}

// Leases returns the requests about the Leases of a namespace.
func (a annotatedLeases) Leases(namespace string) coordinationv1.LeaseInterface {
	return annotatedRequests{comparingRequests{a.LeasesGetter.Leases(namespace), a.lease.known}, a.lease}
}

// An annotatedRequests makes requests about the Leases of a namespace.
type annotatedRequests struct {
	coordinationv1.LeaseInterface
	lease *Lease
}

// Get reads a Lease. It heeds the request of another process, and asks for the lease if
// this process takes over.
func (a annotatedRequests) Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordination.Lease, error) {
	read, err := a.LeaseInterface.Get(ctx, name, opts)
	if a.lease.part != nil {
		a.lease.part.free(read)
		return read, err
	}
	if err == nil {
		a.lease.heed(ctx, read)
		a.lease.ask(ctx, a.LeaseInterface, read)
	}
	return read, err
}

// Create creates a Lease with its annotations.
func (a annotatedRequests) Create(ctx context.Context, lease *coordination.Lease, opts metav1.CreateOptions) (*coordination.Lease, error) {
	if err := a.lease.mark(lease); err != nil {
		return nil, err
	}
	return a.LeaseInterface.Create(ctx, lease, opts)
}

// Update updates a Lease and its annotations.
func (a annotatedRequests) Update(ctx context.Context, lease *coordination.Lease, opts metav1.UpdateOptions) (*coordination.Lease, error) {
	if err := a.lease.mark(lease); err != nil {
		return nil, err
	}
	return a.LeaseInterface.Update(ctx, lease, opts)
}

var _ resourcelock.Interface = (*Lease)(nil)
