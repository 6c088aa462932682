package shards

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordination "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/internal/testing/audit"
)

// An oracle judges what the audit log tells of replicas. Its times are those of the API
// server: when it received a request, and when the request had ended. What a request changes
// is changed in between. The log is written before the answer, so a process can't have acted
// on the answer before that end. When a request was sent its sender says, which is on the same machine.
// It may be received seconds later: a machine, a process or a server may stand still.
//
// A replica that divides holds the shard of a parent at a moment if this is so for the Lease of the
// shard, for the fleet's, which names the number of shards as its holder, and for that of
// the replica itself as a member; one that doesn't divide holds all parents if it is so for the
// Lease of the operator:
//
//   - The replica has written the Lease, and that request had ended before the moment.
//   - The last such request was received no longer ago than RenewDeadline and slack.
//   - Nobody has released the Lease since, or written it with another holder.
//
// The oracle finds what breaks one of these rules:
//
//   - unheld: A replica sends a write for a parent, or for a child, only while it holds the
//     parent's shard, and doesn't release that before the write has ended.
//   - late: If a write has ended only after another replica has written the Lease, since it was under way for
//     so long, then it was refused, or nobody else has written its object while it was under way.
//   - beside: Of all writes for the parents of one bucket, but for late ones, those of one replica have ended before the first
//     one of the next replica is received. A parent never changes its bucket, and a shard is a number of
//     whole buckets, so this holds for each parent, too. The rule knows nothing of Leases. A write that was
//     refused has changed nothing.
//   - early: Nobody takes a Lease from another holder until LeaseDuration has passed since
//     that one's last renewal was received.
//   - given: A Lease names the replica that has written it, or the fleet that it is one of, or nobody.
//   - unknown: A replica writes nothing but parents, children, Leases and Events. Events aren't bound to Leases. Reviews
//     of its own rights aren't stored.
type oracle struct {
	operator      string
	leaseDuration time.Duration
	renewDeadline time.Duration
	slack         time.Duration        // from a replica's look at its Lease until it notes when it sends a write
	divides       map[string]int       // the replicas, and into how many shards each divides; 0: it doesn't
	parents       map[string]types.UID // by name; no name is used twice
}

// A leaseWrite is a write of a Lease.
type leaseWrite struct {
	as, holder      string // "": the Lease was released or deleted
	version         int64  // of the Lease then
	received, ended time.Time
}

// A shardWrite is a write for a parent.
type shardWrite struct {
	audit.Write
	bucket  int
	code    int  // of the answer
	refused bool // it has changed nothing
}

func (w shardWrite) String() string {
	return fmt.Sprintf("bucket %d: %s by %s, code %d, sent at %s, %s to %s", w.bucket, w.What, w.As, w.code, clock(w.Sent), clock(w.Received), clock(w.Ended))
}

// A history is what the log tells.
type history struct {
	leases  map[string][]leaseWrite // by name, in the order in which they were carried out
	writes  []shardWrite            // in the order in which they were received
	unclear []audit.Entry           // nobody knows whether they have changed a Lease
	unknown []audit.Write
}

// fleetHolder returns as whom a replica that divides holds the Lease of the operator.
func (o *oracle) fleetHolder(replica string) string { return fmt.Sprint("shards/", o.divides[replica]) }

// shardLease returns the name of a shard's Lease.
func shardLease(operator string, index int) string { return fmt.Sprint(operator, "-shard-", index) }

// shardOf returns the shard that a write is for, by the number of shards of its sender.
func (o *oracle) shardOf(w shardWrite) int { return w.bucket * o.divides[w.As] / shard.Buckets }

// parentOf returns the name of the parent that a write is for.
func parentOf(resource, name string) string {
	if resource != "gadgets" {
		name, _, _ = strings.Cut(name, "-")
	}
	return name
}

// read sorts what the log has of the replicas.
func (o *oracle) read(t *testing.T, entries []audit.Entry) history {
	t.Helper()
	h := history{leases: map[string][]leaseWrite{}}
	for _, e := range entries {
		ref, code := e.ObjectRef, e.ResponseStatus.Code
		_, known := o.divides[e.ImpersonatedUser.Username]
		// Of a request whose sender was killed the server may not know that it was carried out.
		unclear := e.Stage != "ResponseComplete" || code < 200 || code >= 500
		switch {
		case e.Reads() || ref.Resource == "events" || ref.Resource == "selfsubjectaccessreviews":
		case ref.Resource == "leases":
			if !strings.HasPrefix(ref.Name, o.operator) {
				continue
			}
			if unclear {
				h.unclear = append(h.unclear, e)
			} else if code < 300 {
				h.leases[ref.Name] = append(h.leases[ref.Name], leaseWriteOf(t, e))
			}
		case known:
			uid, ok := o.parents[parentOf(ref.Resource, ref.Name)]
			if !ok || !slices.Contains([]string{"gadgets", "configmaps", "secrets", "services"}, ref.Resource) {
				h.unknown = append(h.unknown, e.Write())
				continue
			}
			h.writes = append(h.writes, shardWrite{e.Write(), shard.Bucket(uid), code, code >= 300 && !unclear})
		}
	}
	for _, writes := range h.leases {
		order(writes)
	}
	slices.SortFunc(h.writes, func(a, b shardWrite) int { return a.Received.Compare(b.Received) })
	return h
}

// leaseWriteOf reads an entry of a Lease.
func leaseWriteOf(t *testing.T, e audit.Entry) leaseWrite {
	t.Helper()
	w := leaseWrite{as: e.ImpersonatedUser.Username, received: e.RequestReceivedTimestamp, ended: e.StageTimestamp}
	if e.Verb == "delete" {
		return w // the answer has no version
	}
	var lease coordination.Lease
	require.NoError(t, json.Unmarshal(e.ResponseObject, &lease))
	if lease.Spec.HolderIdentity != nil {
		w.holder = *lease.Spec.HolderIdentity
	}
	var err error
	w.version, err = strconv.ParseInt(lease.ResourceVersion, 10, 64)
	require.NoError(t, err)
	return w
}

// order brings the writes of a Lease into the order of its versions, in which they were carried out. A
// deletion has the version of what was last received before it.
func order(writes []leaseWrite) {
	slices.SortFunc(writes, func(a, b leaseWrite) int { return a.received.Compare(b.received) })
	last := int64(0)
	for i := range writes {
		if writes[i].version == 0 {
			writes[i].version = last
		}
		last = max(last, writes[i].version)
	}
	slices.SortStableFunc(writes, func(a, b leaseWrite) int { return cmp.Compare(a.version, b.version) })
}

// judge returns what breaks a rule, and how many writes were late.
func (o *oracle) judge(h history) (violations []string, late int) {
	for _, w := range h.unknown {
		violations = append(violations, fmt.Sprintf("unknown: %s by %s", w.What, w.As))
	}
	for _, name := range slices.Sorted(maps.Keys(h.leases)) {
		violations = append(violations, o.judgeLease(name, h.leases[name])...)
	}
	turns := make([][]audit.Write, shard.Buckets)
	for _, w := range h.writes {
		unheld, isLate := o.unheld(h, w)
		switch {
		case unheld != "":
			violations = append(violations, fmt.Sprint("unheld: ", w, ": ", unheld))
		case isLate:
			late++
			if other, ok := besideLate(h, w); ok {
				violations = append(violations, fmt.Sprint("late: ", w, ": meanwhile ", other))
			}
		}
		if !w.refused && !isLate {
			turns[w.bucket] = append(turns[w.bucket], w.Write)
		}
	}
	for bucket, writes := range turns {
		if _, err := audit.Turns(writes); err != nil {
			violations = append(violations, fmt.Sprintf("beside: bucket %d: %v", bucket, err))
		}
	}
	return violations, late
}

// besideLate returns a write of another replica that has changed the same object while a late
// write was under way, which wasn't refused all the same.
func besideLate(h history, late shardWrite) (other shardWrite, ok bool) {
	i := slices.IndexFunc(h.writes, func(w shardWrite) bool {
		return !late.refused && !w.refused && w.As != late.As && w.Object() == late.Object() && w.Received.Before(late.Ended) && w.Ended.After(late.Sent)
	})
	if i < 0 {
		return shardWrite{}, false
	}
	return h.writes[i], true
}

// judgeLease judges who has written a Lease one after the other.
func (o *oracle) judgeLease(name string, writes []leaseWrite) (violations []string) {
	var before leaseWrite
	for _, w := range writes {
		allowed := w.as
		if name == o.operator && o.divides[w.as] > 0 {
			allowed = o.fleetHolder(w.as)
		}
		switch {
		case w.holder != "" && w.holder != allowed:
			violations = append(violations, fmt.Sprintf("given: Lease %s: %s made %s the holder at %s", name, w.as, w.holder, clock(w.received)))
		case before.holder != "" && before.holder != allowed:
			if passed := w.received.Sub(before.received); passed < o.leaseDuration {
				violations = append(violations, fmt.Sprintf("early: Lease %s: %s wrote it at %s, %v after %s had renewed it", name, w.as, clock(w.received), passed, before.holder))
			}
		}
		before = w
	}
	return violations
}

// unheld returns why the sender of a write doesn't hold the shard when it sends the write, or
// gives the shard up before the write has ended. If neither is so, it says whether the write is late.
func (o *oracle) unheld(h history, w shardWrite) (why string, late bool) {
	leases := map[string]string{o.operator: w.As} // by name: as whom the sender holds it
	if o.divides[w.As] > 0 {
		leases = map[string]string{shardLease(o.operator, o.shardOf(w)): w.As, o.operator: o.fleetHolder(w.As), o.memberLease(h, w.As): w.As}
	}
	for _, name := range slices.Sorted(maps.Keys(leases)) {
		why, isLate := o.leaseUnheld(h, name, leases[name], w)
		if why != "" {
			return why, false
		}
		late = late || isLate
	}
	return "", late
}

// memberLease returns the name of a replica's Lease as a member, "" if it never had one.
func (o *oracle) memberLease(h history, replica string) string {
	for name, writes := range h.leases {
		if strings.HasPrefix(name, o.operator+"-member-") && writes[0].as == replica {
			return name
		}
	}
	return ""
}

// leaseUnheld says of one Lease what unheld says. The sender holds it as this holder.
func (o *oracle) leaseUnheld(h history, name, holder string, w shardWrite) (why string, late bool) {
	writes, last := h.leases[name], -1
	for i, l := range writes {
		if l.as == w.As && l.holder == holder && !l.ended.After(w.Sent) {
			last = i
		}
	}
	if last < 0 {
		return fmt.Sprintf("it never had Lease %s before", name), false
	}
	if age := w.Sent.Sub(writes[last].received); age > o.renewDeadline+o.slack {
		return fmt.Sprintf("its last renewal of Lease %s was %v ago", name, age), false
	}
	for _, l := range writes[last+1:] {
		switch {
		case l.holder == holder: // renewed by itself, or by another member of the fleet
		case !l.received.Before(w.Ended):
			return "", false
		case l.as == w.As || l.ended.Before(w.Sent):
			return fmt.Sprintf("%s wrote Lease %s with the holder %q, %s to %s", l.as, name, l.holder, clock(l.received), clock(l.ended)), false
		default:
			return "", true
		}
	}
	return "", false
}

// clock returns a time as violations name it.
func clock(t time.Time) string { return t.Format("15:04:05.000000") }
