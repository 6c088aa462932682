package plan

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A promptStep is one pass over a parent with the children "a" and "b".
type promptStep struct {
	after    time.Duration // since the pass before
	edited   bool          // the parent has been edited
	changed  string        // the names of the children that somebody has changed
	lost     string        // the names of the children that somebody has deleted
	writes   string        // the names of the children that the pass writes
	deletes  string        // the names of the children that the pass deletes,
	behind   bool          // which a finalizer holds
	resync   time.Duration // what the handler asks for
	looping  bool          // the parent is in a conflict loop
	fails    bool          // the pass fails
	want     Prompt        // of the pass
	wantLost string        // the names of the children that the pass finds lost
}

func TestPrompts(t *testing.T) {
	again := func(n int, s promptStep) []promptStep {
		var all []promptStep
		for range n {
			all = append(all, s)
		}
		return all
	}
	first := promptStep{writes: "ab"}
	answer := promptStep{after: 100 * time.Millisecond, changed: "a", writes: "a", want: ByAnswer}
	lenient := answer
	lenient.want = ByOthers
	both := promptStep{after: 100 * time.Millisecond, changed: "ab", writes: "ab", want: ByAnswer}
	for name, tc := range map[string]struct {
		reason string
		steps  []promptStep
	}{
		"Own writes":         {"two passes follow a prompt", append([]promptStep{first, {}, {}}, again(9, promptStep{want: ByOwnWrites})...)},
		"Edits":              {"each edit is a prompt", append([]promptStep{first}, again(9, promptStep{edited: true})...)},
		"Changes":            {"each change of a child is a prompt", append([]promptStep{first}, again(9, promptStep{after: time.Minute, changed: "a", writes: "a"})...)},
		"Resync":             {"each pass that was asked for", append([]promptStep{{writes: "ab", resync: time.Second}}, again(9, promptStep{after: time.Second, resync: time.Second})...)},
		"Early":              {"a pass before that time wasn't asked for", append([]promptStep{{resync: time.Second}, {resync: time.Second}, {resync: time.Second}}, again(9, promptStep{after: 900 * time.Millisecond, resync: time.Second, want: ByOwnWrites})...)},
		"Asked once":         {"the next pass wasn't asked for", []promptStep{{resync: time.Second}, {}, {}, {after: time.Second, want: ByOwnWrites}}},
		"Answers":            {"an answer to an answer to an answer", append([]promptStep{first, lenient, lenient}, again(5, answer)...)},
		"Answers slow":       {"what comes late is no answer", append([]promptStep{first}, again(5, promptStep{after: 2 * time.Second, changed: "a", writes: "a"})...)},
		"Answers in a loop":  {"there, it may come late", append([]promptStep{first, lenient, lenient, answer}, again(5, promptStep{after: time.Minute, changed: "a", writes: "a", looping: true, want: ByAnswer})...)},
		"Answers of two":     {"each is the answer to a write", append([]promptStep{first, {after: 100 * time.Millisecond, changed: "ab", writes: "ab"}, {after: 100 * time.Millisecond, changed: "ab", writes: "ab"}}, again(5, both)...)},
		"To and fro":         {"the answer of one leads to a write of the other", []promptStep{first, {changed: "a", writes: "b"}, {changed: "b", writes: "a"}, {changed: "a", writes: "b", want: ByAnswer}, {changed: "b", writes: "a", want: ByAnswer}}},
		"Several answers":    {"to one write: what follows from it isn't a chain", append([]promptStep{first}, again(9, promptStep{after: 50 * time.Millisecond, changed: "a", writes: "b"})...)},
		"Between":            {"passes that change nothing don't break the chain", []promptStep{first, lenient, {}, lenient, {}, {}, answer}},
		"Changed and edited": {"an edit begins anew", []promptStep{first, lenient, lenient, answer, {edited: true, changed: "a", writes: "a"}, lenient, lenient, answer}},
		"Deleted":            {"our own deletion prompts nothing, nor is it a loss", []promptStep{first, {deletes: "a"}, {}, {want: ByOwnWrites}}},
		"Deleted behind a finalizer": {"the end is the answer, however late", []promptStep{
			first, lenient, lenient, {after: 100 * time.Millisecond, changed: "a", deletes: "a", behind: true, want: ByAnswer}, {after: time.Hour, lost: "a", want: ByAnswer}}},
		"Failed":              {"a pass that repeats a failed one is prompted as that was, and counts for nothing", []promptStep{{edited: true, fails: true}, {writes: "a"}, {}, {}, {want: ByOwnWrites}}},
		"Failed later":        {"one that follows is repeated as well", []promptStep{first, {fails: true}, {}, {}, {want: ByOwnWrites}}},
		"Failed late":         {"but nothing prompts one that was not", []promptStep{first, {}, {}, {fails: true, want: ByOwnWrites}, {want: ByOwnWrites}}},
		"Failing":             {"not for ever", append(append([]promptStep{{edited: true, fails: true}}, again(maxRetries+followUps, promptStep{fails: true, writes: "a"})...), again(3, promptStep{fails: true, writes: "a", want: ByOwnWrites})...)},
		"Failing anew":        {"an edit begins anew", append(append([]promptStep{first}, again(maxRetries+followUps+1, promptStep{edited: true, fails: true})...), again(maxRetries+followUps, promptStep{fails: true})...)},
		"Lost":                {"told once", []promptStep{first, {lost: "a", wantLost: "a"}, {}, {}, {want: ByOwnWrites}}},
		"Lost and made again": {"told each time", []promptStep{first, {lost: "a", wantLost: "a", writes: "a"}, {lost: "ab", wantLost: "ab", writes: "ab"}, {}}},
	} {
		t.Run(name, func(t *testing.T) { runPrompts(t, tc.reason, tc.steps) })
	}
}

func runPrompts(t *testing.T, reason string, steps []promptStep) {
	t.Helper()
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	now, version, generation := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 1, 1
	p, live := &ParentMemory{}, map[string]*resource.Resource{}
	next := func(name, uid string) *resource.Resource {
		version++
		return sample.Object(t, k8s.ConfigMap, name, uid, version, "p")
	}
	shown := func() (all []*resource.Resource) {
		for _, name := range []string{"a", "b"} {
			if live[name] != nil {
				all = append(all, live[name])
			}
		}
		return all
	}
	for i, step := range steps {
		now = now.Add(step.after)
		if step.edited {
			generation++
		}
		for _, name := range step.changed {
			live[string(name)] = next(string(name), string(live[string(name)].UID()))
		}
		for _, name := range step.lost {
			delete(live, string(name))
		}
		parent, children := generationOf(t, generation), shown()
		in := p.InputsOf(parent, children)
		require.Equal(t, step.want, p.Prompted(now, in, children, step.looping), "%s: pass %d", reason, i)
		lost := ""
		p.Lost(now, children, func(ref object.Ref, since time.Duration) {
			lost += ref.Key.Name
			require.GreaterOrEqual(t, since, time.Duration(0))
		})
		require.Equal(t, step.wantLost, lost, "%s: pass %d", reason, i)
		for _, name := range step.changed {
			p.Carry(wantOf(t, s, string(name)), live[string(name)]) // it is as desired, or is written below
		}
		for _, name := range step.writes {
			uid := fmt.Sprint("uid-", version)
			if live[string(name)] != nil {
				uid = string(live[string(name)].UID())
			}
			live[string(name)] = next(string(name), uid)
			p.AcceptWritten(wantOf(t, s, string(name)), live[string(name)], nil, now)
		}
		for _, name := range step.deletes {
			was := live[string(name)]
			delete(live, string(name))
			if step.behind {
				live[string(name)] = next(string(name), string(was.UID()))
			}
			p.Deleted(was, live[string(name)])
		}
		p.Leave(p.InputsOf(parent, shown()))
		p.Resync(now, step.resync)
		p.PassFailed(step.fails)
	}
	require.Empty(t, p.leaving, "what is gone is forgotten")
}

// generationOf returns the parent in a generation.
func generationOf(t *testing.T, generation int) *resource.Resource {
	t.Helper()
	res, err := resource.New(map[string]any{"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "metadata": map[string]any{
		"name": "p", "namespace": "ns", "uid": "p", "resourceVersion": strconv.Itoa(generation), "generation": generation,
	}})
	require.NoError(t, err)
	return res
}

// wantOf returns a desired ConfigMap with this name.
func wantOf(t *testing.T, s *catalog.Settings, name string) *Desired {
	t.Helper()
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	cm := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}
	desired, err := Desire(s, parent, []any{cm}, &ParentMemory{})
	require.NoError(t, err)
	return desired[0]
}

// The changes of two children never cancel each other.
func TestInputsTellChangesApart(t *testing.T) {
	child := func(name string, version int) *resource.Resource {
		return sample.Object(t, k8s.ConfigMap, name, "uid-"+name, version, "p")
	}
	seen := map[Inputs]string{}
	for a := 10; a < 30; a++ {
		for b := 10; b < 30; b++ {
			in, of := Inputs{}.With(child("a", a)).With(child("b", b)), fmt.Sprint(a, " ", b)
			require.Empty(t, seen[in], of)
			seen[in] = of
		}
	}
}
