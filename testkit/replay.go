package testkit

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/guard"
	"github.com/roperator/roperator/internal/recording"
)

// Replay calls h with each request of a recording that [Record] made, and fails
// the test where h returns something else than what was recorded: the failure
// names the line, the parent, and each field with both values. Errors are
// equal, whatever they say; of a response beside an error counts what the
// engine heeds of it. The order of children doesn't count, nor do the times of
// conditions, such as lastTransitionTime.
//
// Values of Secrets aren't told by a recording, so that a handler gets other
// texts in their place. Of the Secrets that it returns, only the names of the
// values are compared.
func Replay(t testing.TB, r io.Reader, h handler.Handler) {
	t.Helper()
	for entry, err := range recording.Read(r) {
		if err != nil {
			t.Fatalf("testkit: replay: %v", err)
		}
		if found := replay(h, &entry); len(found) > 0 {
			parent := entry.Request.Parent
			t.Errorf("testkit: replay: line %d: %s of %s:\n%s", entry.Number, entry.Kind, describe(parent.Type(), parent.Key()), strings.Join(found, "\n"))
		}
	}
}

// replay makes one call, and lists what is another than recorded.
func replay(h handler.Handler, entry *recording.Entry) (found []string) {
	defer func() {
		if v := recover(); v != nil {
			panicked := guard.Recovered(v)
			found = append(found, fmt.Sprintf("  it panicked: %s\n%s", panicked.Text, indent(ownFrames(panicked.Stack))))
		}
	}()
	call, err := recording.Make(context.Background(), h, entry.Kind, entry.Request)
	if err != nil {
		return []string{"  " + err.Error()}
	}
	now, encodeErr := recording.AnswerOf(call, recording.Alike)
	recorded := entry.Answer
	switch {
	case call.Err != nil && entry.Error == "":
		return []string{fmt.Sprintf("  error: recorded none, now %q", call.Err)}
	case call.Err == nil && entry.Error != "":
		return []string{fmt.Sprintf("  error: recorded %q, now none", entry.Error)}
	case encodeErr != nil:
		return []string{"  " + encodeErr.Error()}
	case now == nil && recorded == nil:
		return nil
	case now == nil || recorded == nil:
		return []string{"  response: only one of both calls returned one"}
	case call.Err != nil:
		recorded, now = recorded.BesideError(), now.BesideError()
	}
	return compareAnswers(recorded, now)
}

// compareAnswers lists the differences between what was recorded and what is
// returned now.
func compareAnswers(recorded, now *recording.Answer) []string {
	var out []string
	field := func(name string, a, b any) {
		from := len(out)
		defer func() { slices.Sort(out[from:]) }()
		differing(nil, a, b, func(path string, a, b any) {
			where := strings.TrimSpace(name + " " + path)
			out = append(out, fmt.Sprintf("  %s: recorded %s, now %s", where, formatValue(a), formatValue(b)))
		})
	}
	field("status", plan.Timeless(normalized(recorded.Status)), plan.Timeless(normalized(now.Status)))
	field("keepChildren", recorded.KeepChildren, now.KeepChildren)
	field("finalized", recorded.Finalized, now.Finalized)
	field("resync or retry", recorded.After, now.After)
	field("events", normalized(recorded.Events), normalized(now.Events))
	before, after := byName(recorded.Children), byName(now.Children)
	for _, name := range slices.Sorted(maps.Keys(merged(before, after))) {
		a, b := before[name], after[name]
		switch {
		case a == nil:
			out = append(out, "  "+name+": not recorded, now desired")
		case b == nil:
			out = append(out, "  "+name+": recorded, now not desired")
		default:
			field(name, a, b)
		}
	}
	return out
}

// normalized returns a value as a way through JSON leaves it.
func normalized(v any) any {
	out, err := recording.Plain(v)
	if err != nil {
		return v
	}
	return out
}

// byName returns children by what they are called, without the values of Secrets and the
// times of conditions.
func byName(children []map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, child := range children {
		object, _ := normalized(recording.HiddenChild(child, recording.Alike)).(map[string]any)
		out[describe(typeOf(object), keyOf(object))] = timeless(object)
	}
	return out
}

func merged(a, b map[string]map[string]any) map[string]map[string]any {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
