package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestWrite: which parents are triggered, and when, while a write of p is open and at its end. (S61, S62)
func TestWrite(t *testing.T) {
	children, parents, p, q := Stream{Type: k8s.ConfigMap}, Stream{Type: sample.ParentType()}, types.UID("p"), types.UID("q")
	parentRef := object.Ref{Type: sample.ParentType(), Key: types.NamespacedName{Namespace: "ns", Name: "p"}}
	child := func(version int, owner string) *resource.Resource {
		return sample.Object(t, k8s.ConfigMap, "c", "u", version, owner)
	}
	taken := sample.Object(t, k8s.ConfigMap, "taken", "t", 3, "q")
	parent := func(version int, with ...any) *resource.Resource {
		return changed(t, parentObject("p", version), with...)
	}
	update := Request{Ref: testRef(k8s.ConfigMap, "c"), Parent: p, Guarded: true}
	remove := Request{Ref: testRef(k8s.ConfigMap, "c"), Parent: p, Deletes: "u"}
	finalizers := Request{Ref: parentRef, Parent: p}
	ended := []any{"deletionTimestamp", "2026-01-01T00:00:00Z"}
	held := append([]any{"finalizers", []any{"f"}}, ended...)
	for name, tc := range map[string]struct {
		reason    string
		request   Request
		meanwhile func(s *Store) Change
		during    Change // what meanwhile triggers
		response  *Response
		end       Change
		after     func(s *Store) Change // triggers nothing, if set
	}{
		"Event first": {
			"the event is of the own write", update,
			func(s *Store) Change { return s.Observe(children, child(11, "p")) }, Change{},
			&Response{Live: child(11, "p")}, Change{}, nil,
		},
		"Response first": {
			"the event tells nothing new", update, nil, Change{}, &Response{Live: child(11, "p")}, Change{},
			func(s *Store) Change { return s.Observe(children, child(11, "p")) },
		},
		"Listed first": {
			"a list has the own write", update,
			func(s *Store) Change { return s.Replace(children, []*resource.Resource{child(11, "p"), taken}, "11") }, Change{},
			&Response{Live: child(11, "p")}, Change{}, nil,
		},
		"Changed after the write": {
			"another client has changed it before the response", update,
			func(s *Store) Change { s.Observe(children, child(11, "p")); return s.Observe(children, child(12, "p")) }, Change{},
			&Response{Live: child(11, "p")}, Change{Parents: []types.UID{p}}, nil,
		},
		"Deleted after the write": {
			"by another client, before the response", update,
			func(s *Store) Change {
				s.Observe(children, child(11, "p"))
				return s.ObserveDeleted(children, child(12, "p"))
			}, Change{},
			&Response{Live: child(11, "p")}, Change{Parents: []types.UID{p}}, nil,
		},
		"Rejected": {
			"another client was faster", update,
			func(s *Store) Change { return s.Observe(children, child(11, "p")) }, Change{},
			nil, Change{Parents: []types.UID{p}}, nil,
		},
		"Lost response": {
			"it is not known whose state it was", update,
			func(s *Store) Change { return s.Observe(children, child(11, "p")) }, Change{},
			nil, Change{Parents: []types.UID{p}}, nil,
		},
		"Nothing persisted": {
			"the request changed nothing", update, nil, Change{}, &Response{Live: child(10, "p")}, Change{},
			func(s *Store) Change { return s.Observe(children, child(10, "p")) },
		},
		"Other parent": {
			"it has the child from now on, at once, and p loses it", update,
			func(s *Store) Change { return s.Observe(children, child(12, "q")) }, Change{Parents: []types.UID{q}},
			&Response{Live: child(11, "p")}, Change{Parents: []types.UID{p}}, nil,
		},
		"Taken from another parent": {
			"q is told by the response", Request{Ref: testRef(k8s.ConfigMap, "taken"), Parent: p, Guarded: true}, nil, Change{},
			&Response{Live: sample.Object(t, k8s.ConfigMap, "taken", "t", 11, "p")}, Change{Parents: []types.UID{q}}, nil,
		},
		"Labels lost": {
			"no watch would tell of its end, so it is not stored, and its leave triggers", update,
			func(s *Store) Change { return s.ObserveDeleted(children, child(11, "")) }, Change{},
			&Response{Live: child(11, ""), Unwatched: true}, Change{Parents: []types.UID{p}}, nil,
		},
		"Nobody's write": {
			"it is not of a reconciliation", Request{Ref: testRef(k8s.ConfigMap, "c"), Guarded: true},
			func(s *Store) Change { return s.Observe(children, child(11, "p")) }, Change{Parents: []types.UID{p}},
			&Response{Live: child(11, "p")}, Change{}, nil,
		},
		"Delete, event first": {
			"the end is the own delete's", remove,
			func(s *Store) Change { return s.ObserveDeleted(children, child(11, "p")) }, Change{}, &Response{}, Change{}, nil,
		},
		"Delete, response first": {
			"the end is the own delete's", remove, nil, Change{}, &Response{}, Change{},
			func(s *Store) Change { return s.ObserveDeleted(children, child(11, "p")) },
		},
		"Delete, with a successor": {
			"another client has created an object of the name", remove,
			func(s *Store) Change {
				s.ObserveDeleted(children, child(11, "p"))
				return s.Observe(children, sample.Object(t, k8s.ConfigMap, "c", "v", 12, "p"))
			}, Change{}, &Response{}, Change{Parents: []types.UID{p}}, nil,
		},
		"Delete, finalized before the response": {
			"another client has ended it", remove,
			func(s *Store) Change {
				s.Observe(children, child(11, "p"))
				return s.ObserveDeleted(children, child(12, "p"))
			}, Change{},
			&Response{Live: child(11, "p")}, Change{Parents: []types.UID{p}}, nil,
		},
		"Last finalizer": {
			"the response has the parent that is gone, at its old resourceVersion", finalizers,
			func(s *Store) Change {
				s.Observe(parents, parent(11, held...))
				return s.ObserveDeleted(parents, parent(12, ended...))
			}, Change{}, &Response{Live: parent(11, ended...)}, Change{}, nil,
		},
		"Finalizer": {
			"only the finalizers differ", finalizers, nil, Change{}, &Response{Live: parent(11, "finalizers", []any{"f", "g"})}, Change{},
			func(s *Store) Change { return s.Observe(parents, parent(11, "finalizers", []any{"f", "g"})) },
		},
		"Finalizer, edit in the response": {
			"another client has edited the parent before the patch", finalizers, nil, Change{},
			&Response{Live: parent(12, "finalizers", []any{"f", "g"}, "labels", map[string]any{"a": "b"})}, Change{Edited: []types.UID{p}},
			func(s *Store) Change { return s.Observe(parents, parent(11, "labels", map[string]any{"a": "b"})) },
		},
		"Finalizer, edit by the watch": {
			"one trigger for the edit, not two", finalizers,
			func(s *Store) Change { return s.Observe(parents, parent(11, "labels", map[string]any{"a": "b"})) }, Change{},
			&Response{Live: parent(12, "finalizers", []any{"f", "g"}, "labels", map[string]any{"a": "b"})}, Change{Edited: []types.UID{p, p}}, nil,
		},
		"Finalizer, status in the response": {
			"another client has written the status: it is no edit", finalizers, nil, Change{},
			&Response{Live: changed(t, withStatus(parentObject("p", 12), "x"), "finalizers", []any{"f"})}, Change{Parents: []types.UID{p}}, nil,
		},
		"Finalizer, owner in the response": {
			"another client has made the parent someone's child, which its handler may see", finalizers, nil, Change{},
			&Response{Live: parent(12, "finalizers", []any{"f", "g"}, "ownerReferences", []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "o"}})},
			Change{Parents: []types.UID{p}}, nil,
		},
		"Deselected": {
			"another client has taken the parent out of the selector: it has to be released", finalizers,
			func(s *Store) Change { return s.ObserveDeleted(parents, parent(11)) }, Change{},
			&Response{Live: parent(11), Unwatched: true}, Change{Edited: []types.UID{p}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.Observe(parents, parent(1, "finalizers", []any{"f"}))
			s.Observe(parents, changed(t, parentObject("q", 2)))
			s.Observe(children, taken)
			s.Observe(children, child(10, "p"))
			w := s.Begin(tc.request)
			if tc.meanwhile != nil {
				equal(t, tc.during, tc.meanwhile(s), tc.reason)
			}
			equal(t, tc.end, w.End(tc.response), tc.reason)
			if tc.after != nil {
				equal(t, Change{}, tc.after(s), tc.reason)
			}
			require.Empty(t, s.mu.open)
		})
	}
}

// equal compares two changes. An empty list of parents is as good as none.
func equal(t *testing.T, want, got Change, reason string) {
	t.Helper()
	require.Equal(t, want.Empty(), got.Empty(), "%s: %+v", reason, got)
	require.ElementsMatch(t, want.Parents, got.Parents, reason)
	require.ElementsMatch(t, want.Edited, got.Edited, reason)
	require.ElementsMatch(t, want.Woken, got.Woken, reason)
}

func parentObject(name string, version int) map[string]any {
	return map[string]any{
		"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
		"metadata": map[string]any{"name": name, "namespace": "ns", "uid": name, "resourceVersion": strconv.Itoa(version), "generation": int64(1)},
	}
}

func withStatus(o map[string]any, phase string) map[string]any {
	o["status"] = map[string]any{"phase": phase}
	return o
}

// changed returns an object with these fields of its metadata, as names and values.
func changed(t *testing.T, o map[string]any, with ...any) *resource.Resource {
	t.Helper()
	for i := 0; i < len(with); i += 2 {
		o["metadata"].(map[string]any)[with[i].(string)] = with[i+1]
	}
	res, err := resource.New(o)
	require.NoError(t, err)
	return res
}

// A serverOfOne is an API server with one child of the parent p. Its events and responses arrive in any order.
type serverOfOne struct {
	t       *testing.T
	rnd     *rand.Rand
	store   *Store
	version int           // the newest resourceVersion
	alive   bool          // the child is there
	life    int           // which child of the name it is
	foreign map[int]bool  // the versions that the operator can't know as its own; true: they must trigger
	events  []delivery    // in order
	respond func() Change // of the open write; nil: there is none
	known   int           // the version up to which the store has come
	seen    int           // known at the last reconciliation of p
	due     bool          // p was triggered since
	log     []string
}

// A delivery is a watch event.
type delivery struct {
	state   *resource.Resource
	version int
	gone    bool
}

func (o *serverOfOne) state() *resource.Resource {
	return sample.Object(o.t, k8s.ConfigMap, "c", fmt.Sprint("u", o.life), o.version, "p")
}

// arrives notes what the arrival of everything up to a version has triggered.
func (o *serverOfOne) arrives(version int, c Change, what string) {
	o.known, o.due = max(o.known, version), o.due || slices.Contains(c.Parents, "p")
	o.log = append(o.log, fmt.Sprintf("%s %d: %v", what, version, c.Parents))
}

// change changes, creates or deletes the child.
func (o *serverOfOne) change(deletes, foreign bool) {
	o.version++
	if foreign {
		o.foreign[o.version] = true
	}
	if !o.alive {
		o.life++
	}
	o.alive = !deletes
	o.events = append(o.events, delivery{o.state(), o.version, deletes})
	o.log = append(o.log, fmt.Sprintf("%d: delete %v, foreign %v", o.version, deletes, foreign))
}

// overtake notes that a list or response may overtake the events of children of other clients that came and went.
func (o *serverOfOne) overtake() {
	if _, held := o.store.Object(testRef(k8s.ConfigMap, "c")); held || o.alive {
		return
	}
	for version := range o.foreign {
		o.foreign[version] = o.foreign[version] && version <= o.known
	}
}

// reconcile reconciles p: it sees what the store has, and sends a write.
func (o *serverOfOne) reconcile() {
	held, ok := o.store.Object(testRef(k8s.ConfigMap, "c"))
	o.seen, o.due = o.known, false
	r := Request{Ref: testRef(k8s.ConfigMap, "c"), Parent: "p", Guarded: true}
	deletes := ok && o.rnd.IntN(3) == 0
	if deletes {
		r.Deletes = held.UID()
	}
	w := o.store.Begin(r)
	if ok != o.alive || ok && held.ResourceVersion() != strconv.Itoa(o.version) {
		o.respond = func() Change { return w.End(nil) } // rejected
		return
	}
	o.overtake()
	lost := o.rnd.IntN(5) == 0
	o.change(deletes, lost)
	version, response := o.version, &Response{Live: o.state()}
	switch {
	case lost:
		version, response = 0, nil
	case deletes:
		response.Live = nil
	}
	o.respond = func() Change { o.known = max(o.known, version); return w.End(response) }
}

func (o *serverOfOne) deliver() {
	e := o.events[0]
	o.events = o.events[1:]
	if e.gone {
		o.arrives(e.version, o.store.ObserveDeleted(Stream{Type: k8s.ConfigMap}, e.state), "end")
	} else {
		o.arrives(e.version, o.store.Observe(Stream{Type: k8s.ConfigMap}, e.state), "event")
	}
}

func (o *serverOfOne) step() {
	switch n := o.rnd.IntN(12); {
	case n < 2:
		o.change(o.alive && o.rnd.IntN(3) == 0, true)
	case n < 4 && o.respond == nil:
		o.reconcile()
	case n < 8 && len(o.events) > 0:
		o.deliver()
	case n < 10 && o.respond != nil:
		o.arrives(0, o.respond(), "response")
		o.respond = nil
	case n == 10 && o.rnd.IntN(3) == 0:
		var list []*resource.Resource
		if o.alive {
			list = append(list, o.state())
		}
		o.overtake()
		o.arrives(o.version, o.store.Replace(Stream{Type: k8s.ConfigMap}, list, strconv.Itoa(o.version)), "list")
		o.events = nil
	}
}

// TestWrite_AnyOrder: in any order of events, lists and responses, also of those that get lost, p is triggered by
// what other clients do, and only by that. (S61, S62)
func TestWrite_AnyOrder(t *testing.T) {
	for seed := range budget.Runs(5_000) {
		o := &serverOfOne{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), store: New(sample.ParentType(), sample.TrackingLabel), version: 10, foreign: map[int]bool{}}
		o.store.Observe(Stream{Type: sample.ParentType()}, changed(t, parentObject("p", 1)))
		o.change(false, false)
		o.deliver()
		o.due = false
		for range 4 + o.rnd.IntN(20) {
			o.step()
		}
		if o.respond != nil {
			o.arrives(0, o.respond(), "response")
		}
		for len(o.events) > 0 {
			o.deliver()
		}
		held, ok := o.store.Object(testRef(k8s.ConfigMap, "c"))
		require.Equal(t, o.alive, ok, "seed %d: %q", seed, o.log)
		if ok {
			require.Equal(t, strconv.Itoa(o.version), held.ResourceVersion(), "seed %d: %q", seed, o.log)
		}
		may, must := false, false
		for version, visible := range o.foreign {
			may, must = may || version > o.seen, must || version > o.seen && visible
		}
		require.True(t, o.due && may || !o.due && !must, "seed %d: seen %d: %q", seed, o.seen, o.log)
		require.Empty(t, o.store.mu.open)
	}
}
