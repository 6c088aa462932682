// Package audit reads the audit log of a test's API server: who wrote what, one after the
// other. The log is that of Flags.
package audit

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Flags returns the flags of an API server that writes its log to file, by a policy. The
// log is written before a request is answered.
func Flags(policy, file string) map[string]string {
	return map[string]string{
		"audit-policy-file": policy, "audit-log-path": file, "audit-log-mode": "blocking", "audit-log-maxsize": "10000", "audit-log-maxbackup": "1",
	}
}

// A Write is a request that has changed an object other than a Lease or an Event.
type Write struct {
	As              string // whom its user impersonates
	Received, Ended time.Time
	What            string // the verb and the object: "update configmaps/a"
}

// WritesOf returns the writes of these users in a namespace, in the order in which the API
// server has received them.
func WritesOf(t *testing.T, log, namespace string, users ...string) []Write {
	t.Helper()
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	var out []Write
	for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
		var entry struct {
			Stage, Verb, RequestURI  string
			ObjectRef                struct{ Resource, Namespace, Name string }
			ResponseStatus           struct{ Code int }
			ImpersonatedUser         struct{ Username string }
			RequestReceivedTimestamp time.Time
			StageTimestamp           time.Time
		}
		require.NoError(t, json.Unmarshal(line, &entry))
		ref := entry.ObjectRef
		if entry.Stage != "ResponseComplete" || ref.Namespace != namespace || slices.Contains([]string{"get", "list", "watch"}, entry.Verb) ||
			strings.Contains(entry.RequestURI, "dryRun=All") ||
			entry.ResponseStatus.Code >= 300 || // refused, as what a process sends that was stopped in between: others have changed the object since
			slices.Contains([]string{"leases", "events"}, ref.Resource) || !slices.Contains(users, entry.ImpersonatedUser.Username) {
			continue
		}
		out = append(out, Write{
			As: entry.ImpersonatedUser.Username, Received: entry.RequestReceivedTimestamp, Ended: entry.StageTimestamp,
			What: entry.Verb + " " + ref.Resource + "/" + ref.Name,
		})
	}
	slices.SortFunc(out, func(a, b Write) int { return a.Received.Compare(b.Received) })
	return out
}

// Terms returns who wrote one after the other, and finds that nobody began before the one
// before had ended.
func Terms(t *testing.T, writes []Write) []string {
	t.Helper()
	var out []string
	var ended time.Time
	for _, w := range writes {
		if len(out) == 0 || out[len(out)-1] != w.As {
			require.False(t, w.Received.Before(ended), "%s by %s at %v: a write of %v ended at %v", w.What, w.As, w.Received, out, ended)
			out = append(out, w.As)
		}
		if w.Ended.After(ended) {
			ended = w.Ended
		}
	}
	return out
}
