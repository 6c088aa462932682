package plan

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A readinessMemory remembers the readiness of children, by the resourceVersion at which they
// had it, since to find it out costs more than all else of a pass that changes nothing. The zero
// value is empty.
type readinessMemory struct {
	of    map[types.UID]knownReadiness
	pass  uint64 // counts the calls of ForgetReadiness
	asked int    // how many of the children were asked for since the last one
}

type knownReadiness struct {
	version string
	is      readiness.Readiness
	pass    uint64 // in which the child was asked for last
}

// known returns what is remembered of the readiness of an object in this state.
func (m *readinessMemory) known(res *resource.Resource) (is readiness.Readiness, ok bool) {
	k, ok := m.of[res.UID()]
	return k.is, ok && k.version == res.ResourceVersion()
}

// Readiness returns the readiness of a child, and in how long that may change by itself, zero if
// it doesn't. It is asked for a child once a pass.
func (p *ParentMemory) Readiness(child *resource.Resource, now time.Time) (is readiness.Readiness, expires time.Duration) {
	m := &p.readiness
	known, ok := m.of[child.UID()]
	if !ok || known.version != child.ResourceVersion() {
		known = knownReadiness{version: child.ResourceVersion()}
		if known.is, expires = ReadinessAt(child, now); expires > 0 {
			return known.is, expires
		}
	}
	if m.of == nil {
		m.of = map[types.UID]knownReadiness{}
	}
	known.pass = m.pass
	m.of[child.UID()] = known
	m.asked++
	return known.is, 0
}

// ReadinessAt is ReadinessOf, and also returns in how long that may change by itself, zero if it doesn't. now is
// the present time.
func ReadinessAt(child *resource.Resource, now time.Time) (is readiness.Readiness, expires time.Duration) {
	is = ReadinessOf(child)
	return is, untilUnschedulable(child, is, now)
}

// ForgetReadiness forgets the children for which Readiness wasn't called since the last call.
func (p *ParentMemory) ForgetReadiness() {
	m := &p.readiness
	if len(m.of) > m.asked {
		maps.DeleteFunc(m.of, func(_ types.UID, k knownReadiness) bool { return k.pass != m.pass })
	}
	m.pass, m.asked = m.pass+1, 0
}

// untilUnschedulable returns in how long a Pod that no node can take becomes Failed. That is 15
// seconds after its creation by the rules of kstatus, the only ones that read the clock.
func untilUnschedulable(child *resource.Resource, is readiness.Readiness, now time.Time) time.Duration {
	if is.State != readiness.InProgress || !isOf(child, k8s.Pod) {
		return 0
	}
	text, _ := child.Field("metadata", "creationTimestamp")
	created, err := time.Parse(time.RFC3339, fmt.Sprint(text))
	if age := now.Sub(created); err == nil && age < kstatus.ScheduleWindow {
		return kstatus.ScheduleWindow - age + time.Second // times are given in whole seconds
	}
	return 0
}
