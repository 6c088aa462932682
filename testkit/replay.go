package testkit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/plan"
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
	lines := bufio.NewReader(r)
	var header recordingHeader
	calls := 0
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			if calls == 0 {
				t.Fatalf("testkit: replay: line %d: the recording ends before the first call", n)
			}
			return
		case errors.Is(err, io.EOF):
			t.Fatalf("testkit: replay: line %d: the recording was cut off", n)
		case err != nil:
			t.Fatalf("testkit: replay: line %d: %v", n, err)
		}
		if n == 1 {
			if err := readJSON(line, &header); err != nil || header.Format != recordingFormat {
				t.Fatalf("testkit: replay: line 1: not a recording: want the format %q (%v)", recordingFormat, err)
			}
			continue
		}
		var call recordedCall
		if err := readJSON(line, &call); err != nil {
			t.Fatalf("testkit: replay: line %d: %v", n, err)
		}
		var req handler.SyncRequest
		if err := json.Unmarshal(call.Request, &req); err != nil || req.Parent == nil {
			t.Fatalf("testkit: replay: line %d: request: no parent (%v)", n, err)
		}
		calls++
		if found := replay(h, &call, &req); len(found) > 0 {
			t.Errorf("testkit: replay: line %d: %s of %s:\n%s", n, call.Call, describe(req.Parent.Type(), req.Parent.Key()), strings.Join(found, "\n"))
		}
	}
}

func readJSON(line []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// replay makes one call, and lists what is another than recorded.
func replay(h handler.Handler, call *recordedCall, req *handler.SyncRequest) (found []string) {
	defer func() {
		if v := recover(); v != nil {
			found = append(found, fmt.Sprintf("  it panicked: %v\n%s", v, indent(ownFrames(string(debug.Stack())))))
		}
	}()
	var now *recordedAnswer
	var err, encodeErr error
	switch call.Call {
	case "sync":
		var resp *handler.SyncResponse
		resp, err = h.Sync(context.Background(), req)
		now, encodeErr = syncAnswer(resp)
	case "finalize":
		var resp *handler.FinalizeResponse
		resp, err = h.Finalize(context.Background(), req)
		now, encodeErr = finalizeAnswer(resp)
	default:
		return []string{fmt.Sprintf("  a recording of this version has no call %q", call.Call)}
	}
	switch {
	case err != nil && call.Error == "":
		return []string{fmt.Sprintf("  error: recorded none, now %q", err)}
	case err == nil && call.Error != "":
		return []string{fmt.Sprintf("  error: recorded %q, now none", call.Error)}
	case encodeErr != nil:
		return []string{"  " + encodeErr.Error()}
	case now == nil || call.Response == nil:
		if now == nil && call.Response == nil {
			return nil
		}
		return []string{"  response: only one of both calls returned one"}
	}
	recorded := call.Response
	if err != nil {
		recorded, now = recorded.besideError(), now.besideError()
	}
	return compareAnswers(recorded, now)
}

// besideError returns what counts of an answer that came along with an error.
func (a *recordedAnswer) besideError() *recordedAnswer {
	return &recordedAnswer{Status: a.Status, After: a.After, Events: a.Events}
}

// compareAnswers lists the differences between what was recorded and what is
// returned now.
func compareAnswers(recorded, now *recordedAnswer) []string {
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
	out, err := plainJSON(v)
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
		object, _ := normalized(hidden(child, byNothing)).(map[string]any)
		out[describe(typeOf(object), keyOf(object))] = timeless(object)
	}
	return out
}

func merged(a, b map[string]map[string]any) map[string]map[string]any {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
