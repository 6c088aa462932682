// Package audit reads the audit log of a test's API server: who wrote what, one after the
// other. The log is that of ServerFlags.
package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sent begins what a User-Agent says of the time at which its request was sent.
const sent = " sent/"

// Stamped returns a transport that says in the User-Agent of each request when it sends it, for
// Write.Sent. It belongs into the rest.Config of an operator: there a write comes through it
// right after the operator has looked whether it holds the lease.
func Stamped(next http.RoundTripper) http.RoundTripper { return stamped{next} }

type stamped struct{ http.RoundTripper }

// RoundTrip sends a request.
func (s stamped) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.Header.Set("User-Agent", fmt.Sprint(req.UserAgent(), sent, time.Now().UnixNano()))
	return s.RoundTripper.RoundTrip(out)
}

// A Write is a request that has changed an object other than a Lease or an Event.
type Write struct {
	As              string    // whom its user impersonates
	Sent            time.Time // by the clock of the sender, if it is Stamped; else as Received
	Received, Ended time.Time
	What            string // the verb and the object: "update configmaps/a"
}

// Object returns the object of a write: "configmaps/a".
func (w Write) Object() string {
	_, object, _ := strings.Cut(w.What, " ")
	return object
}

// An Entry is a line of the log: a request that has ended.
type Entry struct {
	Stage, Verb, RequestURI  string
	ObjectRef                struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus           struct{ Code int }
	ImpersonatedUser         struct{ Username string }
	ResponseObject           json.RawMessage // if the policy asks for it
	UserAgent                string
	RequestReceivedTimestamp time.Time
	StageTimestamp           time.Time // its end
}

// Reads says whether the request can't have changed anything: it reads, or is a dry run.
func (e Entry) Reads() bool {
	return slices.Contains([]string{"get", "list", "watch"}, e.Verb) || strings.Contains(e.RequestURI, "dryRun=All")
}

// Write returns the request as a Write.
func (e Entry) Write() Write {
	return Write{
		As: e.ImpersonatedUser.Username, Sent: e.sent(), Received: e.RequestReceivedTimestamp, Ended: e.StageTimestamp,
		What: e.Verb + " " + e.ObjectRef.Resource + "/" + e.ObjectRef.Name,
	}
}

// sent returns when the request was sent, or else when it was received.
func (e Entry) sent() time.Time {
	_, stamp, _ := strings.Cut(e.UserAgent, sent)
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return e.RequestReceivedTimestamp
	}
	return time.Unix(0, at)
}

// Entries returns what the log has from an offset on, as it is written there, and the offset
// behind it.
func Entries(t *testing.T, log string, from int64) (entries []Entry, next int64) {
	t.Helper()
	return entriesWith(t, log, from, "")
}

// entriesWith returns those of the Entries whose line contains a text. Another line isn't
// decoded: the log of a shared API server is long.
func entriesWith(t *testing.T, log string, from int64, text string) (entries []Entry, next int64) {
	t.Helper()
	file, err := os.Open(log)
	require.NoError(t, err)
	defer file.Close()
	lines, err := io.ReadAll(io.NewSectionReader(file, from, math.MaxInt64-from))
	require.NoError(t, err)
	lines = lines[:bytes.LastIndexByte(lines, '\n')+1] // the last line may be half written
	for line := range bytes.Lines(lines) {
		if !bytes.Contains(line, []byte(text)) {
			continue
		}
		var entry Entry
		require.NoError(t, json.Unmarshal(line, &entry))
		entries = append(entries, entry)
	}
	return entries, from + int64(len(lines))
}

// WritesOf returns the writes of these users in a namespace, in the order in which the API
// server has received them.
func WritesOf(t *testing.T, log, namespace string, users ...string) []Write {
	t.Helper()
	var out []Write
	entries, _ := entriesWith(t, log, 0, strconv.Quote(namespace))
	for _, entry := range entries {
		if entry.Stage != "ResponseComplete" || entry.ObjectRef.Namespace != namespace || entry.Reads() ||
			entry.ResponseStatus.Code >= 300 || // refused, as what a process sends that was stopped in between: others have changed the object since
			slices.Contains([]string{"leases", "events"}, entry.ObjectRef.Resource) || !slices.Contains(users, entry.ImpersonatedUser.Username) {
			continue
		}
		out = append(out, entry.Write())
	}
	slices.SortFunc(out, func(a, b Write) int { return a.Received.Compare(b.Received) })
	return out
}

// Terms returns who wrote one after the other, and finds that nobody began before the one
// before had ended.
func Terms(t *testing.T, writes []Write) []string {
	t.Helper()
	out, err := Turns(writes)
	require.NoError(t, err)
	return out
}

// Turns returns who wrote one after the other. An error says who began before the one before
// had ended. Writes are in the order in which they were received.
func Turns(writes []Write) (out []string, err error) {
	var last Write // the one that ended last
	for _, w := range writes {
		if len(out) == 0 || out[len(out)-1] != w.As {
			if w.Received.Before(last.Ended) {
				return out, fmt.Errorf("%s by %s at %v: %s by %s ended at %v", w.What, w.As, w.Received, last.What, last.As, last.Ended)
			}
			out = append(out, w.As)
		}
		if w.Ended.After(last.Ended) {
			last = w
		}
	}
	return out, nil
}
