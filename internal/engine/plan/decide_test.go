package plan

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// What Next answers, besides a verb.
const (
	settledNow = "settled"    // compared, and as desired
	notTouched = "left alone" // nothing is to be done
)

// A decision is one row of TestNext: the desired state is always data.k: new.
type decision struct {
	reason string
	live   *resource.Resource // of the action; nil: the child doesn't exist
	verb   Verb               // of the action
	found  func(d *Desired) Finding
	want   map[config.UpdateStrategy]string
	check  func(t *testing.T, d *Desired, a Action) // of an action that is to be carried out; nil: no check
}

// every is the same answer under every strategy.
func every(answer string) map[config.UpdateStrategy]string {
	return map[config.UpdateStrategy]string{config.Replace: answer, config.Recreate: answer, config.OnDelete: answer, config.Apply: answer}
}

// writing is the answer about a child that differs.
func writing() map[config.UpdateStrategy]string {
	return map[config.UpdateStrategy]string{config.Replace: "update", config.Recreate: "recreate", config.OnDelete: notTouched, config.Apply: "apply"}
}

// correcting is the answer about a child that another client has changed, which no strategy recreates.
func correcting() map[config.UpdateStrategy]string {
	answers := writing()
	answers[config.Recreate] = "update"
	return answers
}

// drift is the difference of a child that says data.k: live.
func drift(live string) merge.Difference {
	return merge.Difference{Path: "data.k", Live: live, Desired: "new"}
}

// decisions are about children that s has created.
func decisions(t *testing.T, s *catalog.Settings) map[string]decision {
	t.Helper()
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	with := func(created, now string, changes ...func(meta map[string]any)) *resource.Resource {
		return lived(t, s, parent, testConfigMap(created), func(o map[string]any) {
			o["data"] = map[string]any{"k": now}
			meta, _ := o["metadata"].(map[string]any)
			for _, change := range changes {
				change(meta)
			}
		})
	}
	dying := func(meta map[string]any) { meta["deletionTimestamp"] = "2026-01-01T00:00:00Z" }
	unmarked := func(meta map[string]any) { delete(meta, "annotations") }
	later := func(meta map[string]any) { meta["resourceVersion"] = "11" }
	nothing := func(*Desired) Finding { return memorized{} }
	// owned changes the owner reference to the parent.
	owned := func(field string, value any) func(meta map[string]any) {
		return func(meta map[string]any) {
			owners, _ := meta["ownerReferences"].([]any)
			ref, _ := owners[0].(map[string]any)
			ref[field] = value
		}
	}
	ownerDiff := func(field string, live, desired any) merge.Difference {
		return merge.Difference{Path: `metadata.ownerReferences[uid="p"].` + field, Live: live, Desired: desired}
	}
	// accepted is the memory of a child that said data.k: now when it was accepted.
	accepted := func(now string, rest ...merge.Difference) func(d *Desired) Finding {
		return func(d *Desired) Finding {
			var p ParentMemory
			p.Accept(d, with("new", now), rest)
			return memorized{child: p.child(d.ref, "uid")}
		}
	}
	normalized := func(rest ...merge.Difference) func(*Desired) Finding {
		return func(*Desired) Finding { return Normalized{Rest: rest} }
	}
	claimed := func(live *resource.Resource) func(*Desired) Finding {
		return func(*Desired) Finding { return Claimed{Before: with("new", "before", unmarked), Live: live} }
	}
	diffs := func(want ...merge.Difference) func(*testing.T, *Desired, Action) {
		return func(t *testing.T, _ *Desired, a Action) { require.Equal(t, want, a.Diffs) }
	}
	restores := func(want bool) func(*testing.T, *Desired, Action) {
		return func(t *testing.T, _ *Desired, a Action) {
			require.Equal(t, want, a.Restores)
			require.False(t, a.Unknown)
		}
	}
	return map[string]decision{
		"memorized/nothing of no child": {
			reason: "the child is missing", found: nothing, want: every("create"),
			check: func(t *testing.T, _ *Desired, a Action) { require.True(t, a.Unknown) },
		},
		"memorized/nothing of one as desired": {reason: "its mark and its fields say so", live: with("new", "new"), found: nothing, want: every(settledNow)},
		"memorized/nothing of an outdated one": {
			reason: "the desired state has changed", live: with("old", "old"), found: nothing, want: writing(), check: diffs(drift("old")),
		},
		"memorized/nothing of a drifted one": {
			reason: "the difference may be what the server made of the same desired state", live: with("new", "drifted"), found: nothing, want: correcting(), check: diffs(drift("drifted")),
		},
		"memorized/nothing of one without a mark": {reason: "only the mark is missing", live: with("new", "new", unmarked), found: nothing, want: every("mark")},
		"memorized/nothing of a dying one":        {reason: "the child is created again once it is gone", live: with("new", "drifted", dying), found: nothing, want: every(notTouched)},
		"memorized/accepted in this very state": {
			reason: "there is nothing to compare", live: with("new", "drifted"),
			found: func(d *Desired) Finding {
				var p ParentMemory
				p.Accept(d, with("new", "drifted"), nil)
				p.child(d.ref, "uid").version = "10"
				return memorized{child: p.child(d.ref, "uid")}
			}, want: every(notTouched),
		},
		"memorized/accepted before": {
			reason: "somebody has changed the child since", live: with("new", "drifted", later), found: accepted("new"), want: correcting(), check: restores(true),
		},
		"memorized/accepted as normalized": {
			reason: "the server made this of the desired state then", live: with("new", "normal", later), found: accepted("normal", drift("normal")), want: every(settledNow),
		},
		"memorized/normalized then, drifted now": {
			reason: "the server made something else of the desired state then", live: with("new", "drifted", later), found: accepted("normal", drift("normal")), want: correcting(), check: restores(true),
		},
		"memorized/another desired state": {
			reason: "what was accepted was something else", live: with("old", "old", later),
			found: func(d *Desired) Finding {
				other := *d
				other.sum[0]++
				other.hash[0]++
				return accepted("old")(&other)
			}, want: writing(), check: restores(false),
		},
		"memorized/nothing of one with another owner's name": {
			reason: "the garbage collector would take it", live: with("new", "new", owned("name", "other")), found: nothing, want: every("mend"), check: diffs(ownerDiff("name", "other", "p")),
		},
		"memorized/nothing of one whose owner's version isn't the parent's": {
			reason: "it goes before the update, under every strategy", live: with("old", "old", owned("apiVersion", "example.com/v0")), found: nothing, want: every("mend"),
			check: diffs(ownerDiff("apiVersion", "example.com/v0", "example.com/v1")),
		},
		"memorized/nothing of one whose owner needn't wait": {
			reason: "it goes before the verification", live: with("new", "drifted", owned("blockOwnerDeletion", nil)), found: nothing, want: every("mend"),
			check: diffs(ownerDiff("blockOwnerDeletion", nil, true)),
		},
		"memorized/accepted before it had another owner's name": {
			reason: "somebody has changed the child since", live: with("new", "new", later, owned("name", "other")), found: accepted("new"), want: every("mend"), check: restores(true),
		},
		"memorized/nothing of a dying one with another owner's name": {reason: "it goes anyway", live: with("new", "new", dying, owned("name", "other")), found: nothing, want: every(notTouched)},
		"Claimed/with another owner's name": {
			reason: "the dry run that would have mended it was refused", verb: VerbMend, found: claimed(with("new", "new", owned("name", "other"))), want: every(settledNow),
		},
		"Normalized/nothing left": {
			reason: "the server takes the desired state as it is, so the child was changed", live: with("new", "drifted"), verb: VerbUpdate, found: normalized(), want: correcting(), check: restores(false),
		},
		"Normalized/the same is left": {
			reason: "the server makes the live value of the desired one", live: with("new", "normal"), verb: VerbUpdate, found: normalized(drift("normal")), want: every(settledNow),
		},
		"Normalized/something else is left": {
			reason: "the server makes another value of the desired one", live: with("new", "drifted"), verb: VerbUpdate, found: normalized(drift("normal")), want: correcting(), check: diffs(drift("drifted")),
		},
		"Normalized/an outdated child": {
			reason: "as after the refusal to change an immutable field: only the mark is old", live: with("old", "normal"), verb: VerbUpdate, found: normalized(drift("normal")), want: every("mark"),
		},
		"Rejection/of all": {
			reason: "S177: the field keeps its live value", live: with("new", "drifted"), verb: VerbUpdate, want: every(settledNow),
			found: func(*Desired) Finding { return Rejection{Diffs: []merge.Difference{drift("drifted")}} },
		},
		"Rejection/of something else": {
			reason: "S180: the rest is written", live: with("new", "drifted"), verb: VerbUpdate, want: correcting(), check: func(t *testing.T, _ *Desired, a Action) {
				require.Equal(t, []merge.Difference{drift("drifted")}, a.Diffs)
				require.Len(t, a.Rejection.Diffs, 1)
			},
			found: func(*Desired) Finding { return Rejection{Diffs: []merge.Difference{{Path: "data.other", Live: "x"}}} },
		},
		"memorized/rejected before": {
			reason: "it is tried again later", live: with("new", "drifted", later), want: every(settledNow),
			found: func(d *Desired) Finding {
				found, _ := accepted("new")(d).(memorized)
				found.drift = &keptDrift{paths: []string{"data.k"}}
				return found
			},
		},
		"Normalized/a dying child": {reason: "the child goes meanwhile", live: with("new", "drifted", dying), verb: VerbUpdate, found: normalized(), want: every(notTouched)},
		"Unchanged": {
			reason: "the write would change the mark alone", live: with("old", "new"), verb: VerbRecreate, found: func(*Desired) Finding { return Unchanged{} }, want: every("mark"),
		},
		"Claimed/as desired":    {reason: "only the mark is missing", verb: VerbCreate, found: claimed(with("new", "new", unmarked)), want: every("mark")},
		"Claimed/differing":     {reason: "the object becomes a child, and is brought in line", verb: VerbCreate, found: claimed(with("new", "theirs", unmarked)), want: writing(), check: diffs(drift("theirs"))},
		"Claimed/once a child":  {reason: "its mark is from before its labels were taken off", verb: VerbCreate, found: claimed(with("new", "theirs")), want: correcting()},
		"Claimed/with the mark": {reason: "nothing but the labels was missing", verb: VerbCreate, found: claimed(with("new", "new")), want: every(settledNow)},
		"Claimed/dying":         {reason: "the object is going", verb: VerbCreate, found: claimed(with("new", "theirs", dying)), want: every(notTouched)},
	}
}

// TestNext: the action that follows from each kind of finding, under each
// strategy. Neither the settings nor the action nor the finding is changed by
// Next: they stay equal to a second set that Next has never seen.
func TestNext(t *testing.T) {
	for strategy := range every("") {
		for name, tc := range decisions(t, settings.For(config.Child{Type: k8s.ConfigMap, Strategy: strategy})) {
			t.Run(fmt.Sprintf("%s/%s", name, strategy), func(t *testing.T) {
				type arguments struct {
					settings *catalog.Settings
					action   Action
					finding  Finding
				}
				made := func() arguments {
					s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: strategy})
					parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
					desired, err := Desire(s, parent, []any{testConfigMap("new")}, &ParentMemory{})
					require.NoError(t, err)
					d, tc := desired[0], decisions(t, s)[name]
					return arguments{s, Action{Verb: tc.verb, Kind: d.kind, Ref: d.ref, Live: tc.live, Want: d}, tc.found(d)}
				}
				in, untouched := made(), made()
				untouched.settings.FieldSets = in.settings.FieldSets // it keeps what it has parsed, which changes no answer

				out, ok := Next(in.settings, in.action, in.finding)

				got := string(out.Verb)
				switch {
				case !ok:
					got = notTouched
				case out.Verb == VerbNone:
					got = settledNow
				}
				require.Equal(t, tc.want[strategy], got, tc.reason)
				require.Equal(t, untouched, in, "Next is pure")
				if ok && out.Verb != VerbNone {
					require.Equal(t, in.action.Ref, out.Ref)
					require.Same(t, in.action.Want, out.Want)
					if tc.check != nil {
						tc.check(t, in.action.Want, out)
					}
				}
			})
		}
	}
}

// TestNextRepeats: the same finding about an action that was derived leads no
// further. That is how the loop in apply ends.
func TestNextRepeats(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	desired, err := Desire(s, parent, []any{testConfigMap("new")}, &ParentMemory{})
	require.NoError(t, err)
	live := lived(t, s, parent, testConfigMap("new"), func(o map[string]any) { o["data"] = map[string]any{"k": "drifted"} })
	verify, ok := Next(s, Action{Live: live, Want: desired[0]}, memorized{})
	require.True(t, ok)
	require.Equal(t, AskFields, verify.Ask())
	require.True(t, verify.Unknown)
	update, ok := Next(s, verify, Normalized{})
	require.True(t, ok)
	require.Equal(t, VerbUpdate, update.Verb)
	require.False(t, update.Unknown, "so a refusal isn't tried as a creation once more")
	again, ok := Next(s, update, Normalized{})
	require.True(t, ok)
	require.Equal(t, update, again)
}

// TestBuildIsPure: Build leaves all that it is given as it was, but for the
// objects of children that Desire knew by their digests.
func TestBuildIsPure(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		again  bool // the response is the second of its kind
	}{
		"new":   {reason: "every object was made by Desire", again: false},
		"known": {reason: "an object is made where a comparison needs it", again: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, in := buildInput(t, tc.again)
			unusedSettings, untouched := buildInput(t, tc.again)
			unusedSettings.FieldSets = s.FieldSets // it keeps what it has parsed, which changes no answer
			drifted := in.Desired[2]
			require.Equal(t, tc.again, drifted.Object() == nil, tc.reason)

			p := Build(s, in)

			require.Equal(t, []string{"ConfigMap ns/missing", "ConfigMap ns/drifted", "ConfigMap ns/unknown"}, refsOf(p.Writes))
			require.Equal(t, []string{"ConfigMap ns/undesired"}, refsOf(p.Deletes))
			require.Equal(t, []string{"ConfigMap ns/settled"}, refsOf(p.Settled))
			require.Len(t, p.Refused, 1)
			require.NotNil(t, drifted.Object(), tc.reason)
			require.Equal(t, p, Build(s, in), "the same input gives the same plan")
			if tc.again {
				require.NoError(t, untouched.Desired[2].load(unusedSettings, untouched.Parent))
			}
			require.Equal(t, untouched, in, "Build is pure")
			require.Equal(t, unusedSettings, s, "Build is pure")
		})
	}
}

// buildInput returns the same input at each call: a child of each kind. With
// again, the handler has returned the same children before.
func buildInput(t *testing.T, again bool) (*catalog.Settings, Input) {
	t.Helper()
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	child := func(name, value string) any {
		cm := testConfigMap(value)
		cm.Name = name
		return cm
	}
	observed := func(name, value string) *resource.Resource {
		return lived(t, s, parent, child(name, "new"), func(o map[string]any) {
			o["data"] = map[string]any{"k": value}
			meta, _ := o["metadata"].(map[string]any)
			meta["uid"] = name
		})
	}
	live := []*resource.Resource{observed("drifted", "x"), observed("kept", "x"), observed("settled", "new"), observed("undesired", "x"), observed("unknown", "x")}
	returned := []any{
		child("missing", "new"), child("refused", "new"), child("drifted", "new"), child("settled", "new"),
		child("unknown", "new"), handler.Keep(live[1]),
	}
	memory := &ParentMemory{}
	desired, err := Desire(s, parent, returned, memory)
	require.NoError(t, err)
	memory.Accept(desired[2], observed("drifted", "new"), []merge.Difference{drift("normal")})
	memory.children.of(desired[2].ref).version = "9"
	memory.refuse(desired[1], errors.New("refused"), 1)
	if again {
		desired, err = Desire(s, parent, returned, memory)
		require.NoError(t, err)
	}
	return s, Input{Parent: parent, Desired: desired, Children: live, Memory: memory, Now: time.Unix(0, 0)}
}
