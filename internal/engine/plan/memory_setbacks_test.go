package plan

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// refuse remembers that d was refused at the time 0, and is tried again after a
// number of seconds.
func (p *ParentMemory) refuse(d *Desired, err error, seconds int) {
	a := Action{Verb: VerbCreate, Kind: d.kind, Ref: d.ref, Want: d}
	p.SetBack(nil, []Setback{{Action: &a, Failure: Failure{Ref: d.ref, Verb: a.Verb, Err: err}}}, nil, time.Unix(0, 0), func(int) time.Duration {
		return time.Duration(seconds) * time.Second
	})
}

// TestRefusalsAreTriedAgain: a refused write is left out for a while, and is repeated
// to the user meanwhile.
func TestRefusalsAreTriedAgain(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.Secret, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	other := secret.DeepCopy()
	other.Type = "other"
	no := errors.New("no")
	for name, tc := range map[string]struct {
		reason string
		child  any
		after  time.Duration
		stir   bool
		tried  bool
	}{
		"at once":       {"the same request would get the same answer", secret, 0, false, false},
		"too early":     {"its time hasn't come", secret, 9 * time.Second, false, false},
		"in time":       {"the cause may have ended elsewhere", secret, 10 * time.Second, false, true},
		"stirred":       {"something has changed that may have been the cause", secret, time.Second, true, true},
		"stirred early": {"but at most once a second", secret, 999 * time.Millisecond, true, false},
		"another state": {"that one wasn't refused", other, 0, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			desire := func(child any) []*Desired {
				desired, err := Desire(s, parent, []any{child}, &ParentMemory{})
				require.NoError(t, err)
				return desired
			}
			memory := NewMemory().Of("p")
			memory.refuse(desire(secret)[0], no, 10)
			if tc.stir {
				memory.Stir()
			}
			p := Build(s, Input{Parent: parent, Desired: desire(tc.child), Memory: memory, Now: time.Unix(0, 0).Add(tc.after)})
			if !tc.tried {
				require.Empty(t, p.Writes, tc.reason)
				require.Len(t, p.Refused, 1, tc.reason)
				require.Equal(t, no, p.Refused[0].Err)
				require.Equal(t, VerbCreate, p.Refused[0].Action.Verb, "it is known what is left out")
				return
			}
			require.Empty(t, p.Refused, tc.reason)
			require.Len(t, p.Writes, 1, tc.reason)
			require.Equal(t, tc.child != any(other), p.Writes[0].Repeated)
		})
	}
}

// TestSetBack: tries in a row are counted, and what a pass didn't try stays as it was.
func TestSetBack(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	desired, err := Desire(s, parent, []any{testConfigMap("v")}, &ParentMemory{})
	require.NoError(t, err)
	d := desired[0]
	a := Action{Verb: VerbCreate, Kind: d.kind, Ref: d.ref, Want: d}
	refused := Setback{Action: &a, Failure: Failure{Ref: d.ref, Verb: VerbCreate, Err: errors.New("no")}}
	backoff := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	start := time.Unix(1000, 0)
	p := NewMemory().Of("p")
	require.Zero(t, p.RetryIn(start))
	for n := range 3 {
		p.SetBack(nil, []Setback{refused}, nil, start, backoff)
		require.Equal(t, n+1, p.Tries(&a))
		require.Equal(t, time.Duration(n+1)*time.Minute, p.RetryIn(start))
	}
	p.SetBack([]Refusal{{Failure: refused.Failure, Action: &a}}, nil, nil, start.Add(time.Minute), backoff)
	require.Equal(t, 3, p.Tries(&a), "it wasn't tried")
	require.Equal(t, 2*time.Minute, p.RetryIn(start.Add(time.Minute)), "its time stays")

	live := lived(t, s, parent, testConfigMap("v"), nil)
	gone := Action{Verb: VerbDelete, Kind: d.kind, Ref: d.ref, Live: live}
	require.Zero(t, p.Tries(&gone), "a delete is another thing")
	p.SetBack(nil, []Setback{{Action: &gone}}, nil, start, backoff)
	require.Equal(t, 1, p.Tries(&gone))
	require.Zero(t, p.RetryIn(start), "a newer state is awaited, nothing was refused")
	plan := Build(s, Input{Parent: parent, Children: []*resource.Resource{live}, Memory: p, Now: start})
	require.Len(t, plan.Deletes, 1, "what is awaited isn't postponed")
	require.True(t, plan.Deletes[0].Repeated)
	p.SetBack(nil, nil, nil, start, backoff)
	require.Zero(t, p.Tries(&gone))
}

// TestSetBack_HeldBatch: a batch that comes due between the plan and the last write keeps its tries, and one that was due and is
// accepted is forgotten.
func TestSetBack_HeldBatch(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	memory := NewMemory().Of("p")
	desired, err := Desire(s, parent, []any{testConfigMap("v")}, memory)
	require.NoError(t, err)
	b := Batch{Type: k8s.ConfigMap}
	backoff := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	start := time.Unix(1000, 0)
	for range 3 {
		memory.SetBack(nil, nil, map[Batch]HeldNow{b: {Reason: "no", Failure: Failure{Err: errors.New("no")}}}, start, backoff)
	}
	build := func(at time.Time) Plan {
		return Build(s, Input{Parent: parent, Desired: desired, Memory: memory, Now: at})
	}
	kept := build(start.Add(3*time.Minute - time.Second)).Refused
	require.Len(t, kept, 1)
	memory.SetBack(kept, nil, nil, start.Add(3*time.Minute+time.Second), backoff)
	require.Equal(t, 3, memory.held[b].tries)
	require.Empty(t, build(start.Add(3*time.Minute+time.Second)).Refused, "it is due")
	memory.SetBack(nil, nil, nil, start.Add(4*time.Minute), backoff)
	require.Empty(t, memory.held)
}

// TestSetBack_AnotherValueEachTime: a handler that makes a random value is no reason to try again at once.
func TestSetBack_AnotherValueEachTime(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	backoff := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	start, no := time.Unix(1000, 0), errors.New("no")
	p := NewMemory().Of("p")
	tries := func(value string, refusal error) time.Duration {
		desired, err := Desire(s, parent, []any{testConfigMap(value)}, &ParentMemory{})
		require.NoError(t, err)
		a := Action{Verb: VerbCreate, Kind: desired[0].kind, Ref: desired[0].ref, Want: desired[0]}
		p.SetBack(nil, []Setback{{Action: &a, Failure: Failure{Ref: a.Ref, Verb: a.Verb, Err: refusal}}}, nil, start, backoff)
		return time.Duration(p.Tries(&a))
	}
	require.EqualValues(t, 1, tries("a", no))
	require.EqualValues(t, 2, tries("b", no))
	require.EqualValues(t, 3, tries("c", no))
	p.Stir()
	require.EqualValues(t, 1, tries("d", no), "something has happened, so it may be wanted for that")
	require.EqualValues(t, 2, tries("d", no), "the same comes to nothing all the same")
	p.Calm()
	require.EqualValues(t, 3, tries("e", no))
	require.EqualValues(t, 1, tries("f", nil), "a newer state is awaited: no refusal")
	require.EqualValues(t, 1, tries("g", no))
}

// TestLastErrors: a handler is shown what failed, without what has fields of its own.
func TestLastErrors(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	desired, err := Desire(s, parent, []any{testConfigMap("v")}, &ParentMemory{})
	require.NoError(t, err)
	ref := desired[0].ref
	m := NewMemory()
	require.Empty(t, m.LastErrors("p"))
	require.Zero(t, m.Len(), "a question is no parent")
	p := m.Of("p")
	require.False(t, p.Fail(nil))
	require.False(t, p.Fail([]Failure{{Ref: ref, Verb: VerbMark, Reason: "Invalid", Err: errors.New("ConfigMap ns/c: mark: no")}}))
	require.Equal(t, []handler.ChildError{{Type: k8s.ConfigMap, Key: ref.Key, Verb: "update", Reason: "Invalid", Message: "no"}}, m.LastErrors("p"))
	require.True(t, p.Fail(nil), "the handler doesn't know yet that all is well")
	require.Empty(t, m.LastErrors("p"))
	require.False(t, p.Fail(nil))
}

// TestStatusRefused: a refused status isn't sent again before its time, unless another
// one is wanted.
func TestStatusRefused(t *testing.T) {
	p := NewMemory().Of("p")
	no, start := errors.New("no"), time.Unix(1000, 0)
	backoff := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	require.NoError(t, p.StatusRefused("a", start))
	p.RefuseStatus("a", no, start, backoff)
	require.Equal(t, no, p.StatusRefused("a", start))
	require.Equal(t, time.Minute, p.RetryIn(start))
	require.NoError(t, p.StatusRefused("a", start.Add(time.Minute)))
	p.RefuseStatus("a", no, start, backoff)
	require.Equal(t, 2*time.Minute, p.RetryIn(start))
	p.Stir()
	p.Calm()
	require.Equal(t, no, p.StatusRefused("a", start.Add(999*time.Millisecond)), "once a second")
	require.NoError(t, p.StatusRefused("a", start.Add(time.Second)), "the pass that tried the children has left the status to the next one")
	p.RefuseStatus("a", no, start, backoff)
	require.Equal(t, no, p.StatusRefused("a", start), "once for each time that something happens")
	require.NoError(t, p.StatusRefused("b", start))
	p.RefuseStatus("b", no, start, backoff)
	require.Equal(t, 4*time.Minute, p.RetryIn(start), "a handler that returns another status each time isn't asked more often")
	p.Stir()
	p.RefuseStatus("c", no, start, backoff)
	require.Equal(t, time.Minute, p.RetryIn(start), "something has happened")
	p.RefuseStatus("c", no, start, backoff)
	p.AcceptStatus("d", "d")
	require.Zero(t, p.RetryIn(start), "nothing is left of it")
	p.RefuseStatus("a", no, start, backoff)
	p.ForgetRefusal()
	require.Zero(t, p.RetryIn(start))
}
