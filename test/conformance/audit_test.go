package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An auditLog is the file in which kube-apiserver notes the requests that
// reached it. All scenarios look at it, so each line is parsed once.
type auditLog struct {
	path string

	mu       sync.Mutex
	end      int64 // of what has been parsed
	requests []request
	starts   []int64 // where the line of each request begins
}

// openAuditLog returns the log from its present end on. An existing cluster has logged the
// requests of other packages before.
func openAuditLog(path string) (*auditLog, error) {
	end, err := lastLine(path)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	return &auditLog{path: path, end: int64(end)}, nil
}

// A mark is a moment in the audit log.
type mark int64

// A request is one that the API server has answered; a watch, one that has
// begun.
type request struct {
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection
	Group       string
	Resource    string // deployments; "" for /healthz and the like, see URI
	Subresource string
	Namespace   string
	Name        string
	UserAgent   string
	URI         string
	DryRun      bool
	Code        int
	As          string    // whom the user impersonates
	Received    time.Time // by the API server
	Ended       bool      // a watch that has ended, rather than begun
}

func (r request) String() string {
	path := strings.Trim(strings.Join([]string{r.Resource, r.Namespace, r.Name, r.Subresource}, "/"), "/")
	if r.Resource == "" {
		path = r.URI
	}
	if r.DryRun {
		path += " (dry run)"
	}
	return fmt.Sprintf("%s %s: %d", r.Verb, path, r.Code)
}

// persists says whether the request asks to change something. A review of the operator's
// rights is a create that stores nothing.
func (r request) persists() bool {
	return !r.DryRun && r.Resource != "selfsubjectaccessreviews" && !slices.Contains([]string{"get", "list", "watch"}, r.Verb)
}

// continues says whether a watch begins at a version that the client knows.
func (r request) continues() bool {
	asked := r.query()
	return r.Verb == "watch" && !r.Ended && !slices.Contains([]string{"", "0"}, asked.Get("resourceVersion")) && !asked.Has("sendInitialEvents")
}

// follows says whether a watch that continues may continue this one: it ended when the time
// was over that client-go's reflectors ask for, which is 5 to 10 minutes.
func (r request) follows(before request) bool {
	return before.Ended && before.Namespace == r.Namespace && before.query().Get("fieldSelector") == r.query().Get("fieldSelector") &&
		r.Received.Sub(before.Received) >= 5*time.Minute
}

func (r request) query() url.Values {
	uri, err := url.Parse(r.URI)
	if err != nil {
		return nil
	}
	return uri.Query()
}

// needsAudit skips a scenario that counts requests where there is no log of
// them.
func needsAudit(t *testing.T) *auditLog {
	t.Helper()
	if audit == nil {
		t.Skip("no audit log: the API server wasn't started by the test")
	}
	return audit
}

// mark returns now.
func (l *auditLog) mark(t testing.TB) mark {
	t.Helper()
	now, err := lastLine(l.path)
	require.NoError(t, err)
	return now
}

// lastLine returns the end of the last whole line of a file. A line may be half written.
func lastLine(path string) (mark, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	for chunk := make([]byte, 16<<10); end > 0; {
		start := max(0, end-int64(len(chunk)))
		n, err := file.ReadAt(chunk[:end-start], start)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(chunk[:n], '\n'); i >= 0 {
			return mark(start + int64(i) + 1), nil
		}
		end = start
	}
	return 0, nil
}

// since returns the requests of the operator of this name since then, in the
// order in which they were answered. Watches are left out: a watch that ends
// is begun again.
func (l *auditLog) since(t testing.TB, from mark, operator string) []request {
	t.Helper()
	return slices.DeleteFunc(l.all(t, from), func(r request) bool {
		return r.Verb == "watch" || !strings.HasPrefix(r.UserAgent, operator+"/")
	})
}

// all returns everybody's requests since then.
func (l *auditLog) all(t testing.TB, from mark) []request {
	t.Helper()
	return slices.DeleteFunc(l.entries(t, from), func(r request) bool { return r.Ended })
}

// watching returns how many of the watches that a user has begun since then
// haven't ended.
func (l *auditLog) watching(t testing.TB, from mark, user string) int {
	t.Helper()
	n := 0
	for _, r := range l.entries(t, from) {
		switch {
		case r.As != user || r.Verb != "watch" || r.Code >= 300:
		case r.Ended:
			n--
		default:
			n++
		}
	}
	return n
}

// entries returns everybody's requests since then, and which watches ended.
func (l *auditLog) entries(t testing.TB, from mark) []request {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := os.Open(l.path)
	require.NoError(t, err)
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, l.end, math.MaxInt64-l.end))
	require.NoError(t, err)
	text = text[:bytes.LastIndexByte(text, '\n')+1] // a line may be half written
	for line := range bytes.Lines(text) {
		if r, ok := parseAudit(t, line); ok {
			l.requests, l.starts = append(l.requests, r), append(l.starts, l.end)
		}
		l.end += int64(len(line))
	}
	first, _ := slices.BinarySearch(l.starts, int64(from))
	return slices.Clone(l.requests[first:])
}

// parseAudit returns false for an entry that neither completes a request nor
// begins a watch.
func parseAudit(t testing.TB, line []byte) (request, bool) {
	t.Helper()
	var entry struct {
		Stage, RequestURI, Verb, UserAgent string
		ObjectRef                          struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		ResponseStatus                     struct{ Code int }
		ImpersonatedUser                   struct{ Username string }
		RequestReceivedTimestamp           time.Time
	}
	require.NoError(t, json.Unmarshal(line, &entry))
	completes := entry.Stage == "ResponseComplete" || entry.Stage == "Panic"
	watches := entry.Verb == "watch" && entry.ResponseStatus.Code < 300 // logged when it begins and when it ends
	if !completes && !watches {
		return request{}, false
	}
	uri, err := url.Parse(entry.RequestURI)
	require.NoError(t, err)
	return request{
		Verb: entry.Verb, Group: entry.ObjectRef.APIGroup, Resource: entry.ObjectRef.Resource, Subresource: entry.ObjectRef.Subresource,
		Namespace: entry.ObjectRef.Namespace, Name: entry.ObjectRef.Name, UserAgent: entry.UserAgent, URI: entry.RequestURI,
		DryRun: slices.Contains(uri.Query()["dryRun"], "All"), Code: entry.ResponseStatus.Code,
		As: entry.ImpersonatedUser.Username, Received: entry.RequestReceivedTimestamp, Ended: watches && completes,
	}, true
}

func TestRequestFollows(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	of := func(name, asks string, after time.Duration, ended bool) request {
		return request{
			Verb: "watch", Namespace: "ns", Received: begin.Add(after), Ended: ended,
			URI: "/api/v1/namespaces/ns/secrets?fieldSelector=metadata.name%3D" + name + "&watch=true&" + asks,
		}
	}
	const anew, on = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "resourceVersion=17"
	for name, c := range map[string]struct {
		before, r          request
		continues, follows bool
	}{
		"its time was over":    {of("a", anew, 0, true), of("a", on, 6*time.Minute, false), true, true},
		"it broke off":         {of("a", anew, 0, true), of("a", on, time.Minute, false), true, false},
		"of another name":      {of("b", anew, 0, true), of("a", on, 6*time.Minute, false), true, false},
		"it goes on":           {of("a", anew, 0, false), of("a", on, 6*time.Minute, false), true, false},
		"it begins anew":       {of("a", anew, 0, true), of("a", anew, 6*time.Minute, false), false, true},
		"anew, from a version": {of("a", anew, 0, true), of("a", anew+"&"+on, 6*time.Minute, false), false, true},
		"from any version":     {of("a", anew, 0, true), of("a", "resourceVersion=0", 6*time.Minute, false), false, true},
	} {
		require.Equal(t, c.continues, c.r.continues(), name)
		require.Equal(t, c.follows, c.r.follows(c.before), name)
	}
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	log := needsAudit(t)
	kit := idle(t, "audit-log")
	from := log.mark(t)
	kit.Create(configMap("one", "k", "v"))
	kit.Get(configMap("one", "", ""))
	kit.Get(configMap("two", "", ""))
	seen := slices.DeleteFunc(log.all(t, from), func(r request) bool { return r.Namespace != kit.Namespace || r.Resource != "configmaps" })
	var lines []string
	for _, r := range seen {
		if strings.HasPrefix(r.UserAgent, "roperator-testkit") {
			lines = append(lines, r.String())
		}
	}
	ns := kit.Namespace
	require.Equal(t, []string{
		"create configmaps/" + ns + "/one: 201",
		"get configmaps/" + ns + "/one: 200",
		"get configmaps/" + ns + "/two: 404",
	}, lines)
	require.NotEmpty(t, log.since(t, 0, "audit-log"), "what the operator asked when it started")
}
