package past_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/past"
	"github.com/roperator/roperator/resource"
)

// A stage is a record of one Secret, and a witness.
type stage struct {
	t       *testing.T
	record  *past.Record
	witness *past.Witness
	version int
	now     map[string]any // nil: the Secret isn't there
}

// secret returns a state of the Secret.
func (s *stage) secret(version int, tier string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"version": strconv.Itoa(version)},
		"metadata": map[string]any{"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": strconv.Itoa(version), "labels": map[string]any{"tier": tier}},
	}
}

// put changes the Secret, or creates it.
func (s *stage) put(tier string) {
	s.version++
	was := s.now
	s.now = s.secret(s.version, tier)
	s.record.Note(was, s.now)
}

func (s *stage) drop() {
	s.record.Note(s.now, nil)
	s.now = nil
}

// at returns the Secret as it was in a version.
func (s *stage) at(version int, tier string) []*resource.Resource {
	res, err := resource.New(s.secret(version, tier))
	require.NoError(s.t, err)
	return []*resource.Resource{res}
}

func byName() past.Ref { return past.Ref{Kind: "Secret", Namespace: "ns", Name: "a"} }

func byTier() past.Ref { return past.Ref{Kind: "Secret", Selector: "tier=gold"} }

func TestWitness(t *testing.T) {
	const gold, tin = "gold", "tin"
	for name, tc := range map[string]struct {
		reason string
		refs   []past.Ref
		before func(s *stage)                      // the process begins
		after  func(s *stage)                      // and before the parent refers to the Secret
		then   func(s *stage)                      // and before the handler is called; nil: nothing
		shown  func(s *stage) []*resource.Resource // nil: nothing
		next   func(s *stage) []*resource.Resource // by the next call; nil: there is none
		want   string                              // in what is wrong; empty: nothing is
	}{
		"AsItIs":          {"the usual", []past.Ref{byName()}, nil, func(s *stage) { s.put(gold) }, nil, func(s *stage) []*resource.Resource { return s.at(1, gold) }, nil, ""},
		"NotYet":          {"a watch may be late", []past.Ref{byName()}, nil, nil, func(s *stage) { s.put(gold) }, nil, nil, ""},
		"Late":            {"so may one be that was there before the reference", []past.Ref{byName()}, nil, func(s *stage) { s.put(gold); s.put(gold) }, nil, func(s *stage) []*resource.Resource { return s.at(1, gold) }, nil, ""},
		"NotLookedFor":    {"it was there all the time", []past.Ref{byName()}, nil, func(s *stage) { s.put(gold) }, nil, nil, nil, "Secret/ns/a, referred to by [Secret@ns/a], isn't shown"},
		"BeforeProcess":   {"no process knows what was before it", []past.Ref{byName()}, func(s *stage) { s.put(gold); s.put(gold) }, nil, nil, func(s *stage) []*resource.Resource { return s.at(1, gold) }, nil, "is shown at resourceVersion 1"},
		"Never":           {"it never had such a state", []past.Ref{byName()}, nil, func(s *stage) { s.put(gold) }, nil, func(s *stage) []*resource.Resource { return s.at(7, gold) }, nil, "is shown at resourceVersion 7"},
		"OtherContents":   {"nor such contents", []past.Ref{byName()}, nil, func(s *stage) { s.put(gold) }, nil, func(s *stage) []*resource.Resource { return s.at(1, tin) }, nil, "is shown at resourceVersion 1"},
		"NotReferred":     {"nothing refers to it", nil, nil, func(s *stage) { s.put(gold) }, nil, func(s *stage) []*resource.Resource { return s.at(1, gold) }, nil, "is shown, to which nothing refers"},
		"LeftSelector":    {"it has another label", []past.Ref{byTier()}, nil, func(s *stage) { s.put(gold); s.put(tin) }, nil, nil, nil, ""},
		"NotSelected":     {"it never had the label", []past.Ref{byTier()}, nil, func(s *stage) { s.put(tin) }, nil, func(s *stage) []*resource.Resource { return s.at(1, tin) }, nil, "is shown at resourceVersion 1"},
		"SelectedAlways":  {"it had the label all the time", []past.Ref{byTier()}, nil, func(s *stage) { s.put(gold) }, nil, nil, nil, "isn't shown"},
		"EitherReference": {"one of the watches is late", []past.Ref{byName(), byTier()}, nil, func(s *stage) { s.put(gold); s.put(tin) }, nil, func(s *stage) []*resource.Resource { return s.at(1, gold) }, nil, ""},
		"BothReferences":  {"by one of them it was there", []past.Ref{byName(), byTier()}, nil, func(s *stage) { s.put(tin) }, nil, nil, nil, "isn't shown"},
		"GoesOn":          {"the next call shows what is newer", []past.Ref{byName()}, nil, func(s *stage) { s.put(gold); s.put(gold) }, nil, func(s *stage) []*resource.Resource { return s.at(1, gold) }, func(s *stage) []*resource.Resource { return s.at(2, gold) }, ""},
		"GoesBack":        {"and nothing that is older", []past.Ref{byName()}, nil, func(s *stage) { s.put(gold); s.put(gold) }, nil, func(s *stage) []*resource.Resource { return s.at(2, gold) }, func(s *stage) []*resource.Resource { return s.at(1, gold) }, "is shown at resourceVersion 1"},
		"Gone":            {"it was seen, and has gone", []past.Ref{byName()}, nil, func(s *stage) { s.put(gold); s.drop() }, nil, func(s *stage) []*resource.Resource { return s.at(1, gold) }, func(*stage) []*resource.Resource { return nil }, ""},
		"GoneAndBack":     {"it was seen not to be there any more", []past.Ref{byName()}, nil, func(s *stage) { s.put(gold); s.drop() }, nil, nil, func(s *stage) []*resource.Resource { return s.at(1, gold) }, "is shown at resourceVersion 1"},
		"Vanishes":        {"it was seen, and is there still", []past.Ref{byName()}, nil, nil, func(s *stage) { s.put(gold) }, func(s *stage) []*resource.Resource { return s.at(1, gold) }, func(*stage) []*resource.Resource { return nil }, "isn't shown"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{t: t, record: past.NewRecord("Secret")}
			do := func(change func(s *stage)) {
				if change != nil {
					change(s)
				}
			}
			do(tc.before)
			s.witness = s.record.Witness()
			do(tc.after)
			s.witness.Refers("p", tc.refs)
			do(tc.then)
			var shown []*resource.Resource
			if tc.shown != nil {
				shown = tc.shown(s)
			}
			wrong := s.witness.Shown("p", tc.refs, shown)
			if tc.next != nil {
				require.Empty(t, wrong, tc.reason)
				wrong = s.witness.Shown("p", tc.refs, tc.next(s))
			}
			if tc.want == "" {
				require.Empty(t, wrong, tc.reason)
				return
			}
			require.Len(t, wrong, 1, tc.reason)
			require.Contains(t, wrong[0], tc.want, tc.reason)
		})
	}
}

// A reference that nobody had for a while is looked up anew.
func TestWitness_ReferenceAnew(t *testing.T) {
	s := &stage{t: t, record: past.NewRecord("Secret")}
	s.witness = s.record.Witness()
	refs := []past.Ref{byName()}
	s.witness.Refers("p", refs)
	s.put("gold")
	require.Empty(t, s.witness.Shown("p", refs, nil), "the watch is late")
	require.Empty(t, s.witness.Shown("p", nil, nil))
	s.witness.Refers("p", refs)
	require.Len(t, s.witness.Shown("p", refs, nil), 1)
}

// A reference that a parent hadn't for a moment may be followed by another watch, which is late.
func TestWitness_ReferenceThereAndBack(t *testing.T) {
	s := &stage{t: t, record: past.NewRecord("Secret")}
	s.witness = s.record.Witness()
	refs := []past.Ref{byName()}
	s.witness.Refers("p", refs)
	s.put("gold")
	s.put("gold")
	require.Empty(t, s.witness.Shown("p", refs, s.at(2, "gold")))
	s.witness.Refers("p", refs)
	require.Len(t, s.witness.Shown("p", refs, s.at(1, "gold")), 1)
	s.witness.Refers("p", nil)
	s.witness.Refers("p", refs)
	require.Empty(t, s.witness.Shown("p", refs, s.at(1, "gold")))
}

// As long as another parent has it, it isn't: the same watch goes on, and may be late.
func TestWitness_ReferenceOfOthers(t *testing.T) {
	s := &stage{t: t, record: past.NewRecord("Secret")}
	s.witness = s.record.Witness()
	refs := []past.Ref{byName()}
	s.witness.Refers("other", refs)
	s.put("gold")
	s.witness.Refers("p", refs)
	require.Empty(t, s.witness.Shown("p", refs, nil))
}

// What the process was never asked isn't judged as if it were.
func TestWitness_NeverAsked(t *testing.T) {
	s := &stage{t: t, record: past.NewRecord("Secret")}
	s.witness = s.record.Witness()
	s.put("gold")
	require.Contains(t, s.witness.Shown("p", []past.Ref{byName()}, nil)[0], "never asked")
}

// A reference is read as it is printed.
func TestParseRef(t *testing.T) {
	for _, text := range []string{"Node", "Secret@ns", "Secret@ns/a", "Node/a", "Secret@ns?tier=gold", "Node?a.example.com/tier in (gold,tin)"} {
		require.Equal(t, text, past.ParseRef(text).String())
	}
	require.Equal(t, past.Ref{Kind: "Secret", Namespace: "ns", Selector: "a/b=c"}, past.ParseRef("Secret@ns?a/b=c"))
}

// A restore of a backup is a change of everything that is otherwise by then.
func TestRecord_Restored(t *testing.T) {
	s := &stage{t: t, record: past.NewRecord("Secret")}
	s.witness = s.record.Witness()
	refs := []past.Ref{byName()}
	s.witness.Refers("p", refs)
	s.put("gold")
	backup := s.at(1, "gold")
	s.put("gold")
	require.Empty(t, s.witness.Shown("p", refs, s.at(2, "gold")))
	s.record.Restored(backup)
	require.Empty(t, s.witness.Shown("p", refs, s.at(2, "gold")), "it isn't known yet")
	require.Empty(t, s.witness.Shown("p", refs, s.at(1, "gold")))
	require.Empty(t, s.witness.Shown("p", refs, s.at(2, "gold")), "another watch may not know it yet")
	s.witness.Refers("q", []past.Ref{byTier()})
	require.Len(t, s.witness.Shown("q", []past.Ref{byTier()}, nil), 1, "it is still there")
	require.False(t, s.record.Collided())
	s.record.Note(s.now, s.secret(2, "tin"))
	require.True(t, s.record.Collided())
	s.record.Restored(nil)
	require.Empty(t, s.witness.Shown("q", []past.Ref{byTier()}, nil))
	require.Len(t, s.record.Witness().Shown("q", nil, s.at(1, "gold")), 1, "no other process knows it")
}
