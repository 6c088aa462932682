package dev

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A write is a request that has changed an object other than a Lease or an Event.
type write struct {
	as              string // whom its user impersonates
	received, ended time.Time
	what            string
}

// writesOf returns the writes of these users in a namespace, in the order in which the API
// server has received them.
func writesOf(t *testing.T, log, namespace string, users ...string) []write {
	t.Helper()
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	var out []write
	for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
		var entry struct {
			Stage, Verb              string
			ObjectRef                struct{ Resource, Namespace, Name string }
			ResponseStatus           struct{ Code int }
			ImpersonatedUser         struct{ Username string }
			RequestReceivedTimestamp time.Time
			StageTimestamp           time.Time
		}
		require.NoError(t, json.Unmarshal(line, &entry))
		ref := entry.ObjectRef
		if entry.Stage != "ResponseComplete" || ref.Namespace != namespace || slices.Contains([]string{"get", "list", "watch"}, entry.Verb) ||
			entry.ResponseStatus.Code >= 300 || // refused, as what a process sends that was stopped in between: others have changed the object since
			slices.Contains([]string{"leases", "events"}, ref.Resource) || !slices.Contains(users, entry.ImpersonatedUser.Username) {
			continue
		}
		out = append(out, write{
			as: entry.ImpersonatedUser.Username, received: entry.RequestReceivedTimestamp, ended: entry.StageTimestamp,
			what: entry.Verb + " " + ref.Resource + "/" + ref.Name,
		})
	}
	slices.SortFunc(out, func(a, b write) int { return a.received.Compare(b.received) })
	return out
}

// terms returns who wrote one after the other, and finds that nobody began before the one
// before had ended.
func terms(t *testing.T, writes []write) []string {
	t.Helper()
	var out []string
	var ended time.Time
	for _, w := range writes {
		if len(out) == 0 || out[len(out)-1] != w.as {
			require.False(t, w.received.Before(ended), "%s by %s at %v: a write of %v ended at %v", w.what, w.as, w.received, out, ended)
			out = append(out, w.as)
		}
		if w.ended.After(ended) {
			ended = w.ended
		}
	}
	return out
}
