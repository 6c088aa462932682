package histories

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/apirequest"
)

// What a request may meet, besides the codes of the API server's errors.
const (
	lateBefore  = "late-before"  // it is late
	lateAfter   = "late-after"   // it is carried out, and the answer is late
	breakBefore = "break-before" // the connection breaks, nothing was done
	breakAfter  = "break-after"  // the connection breaks, it was done
	pageMissing = "page-404"     // a proxy answers that there is no such page
	pageFine    = "page-200"     // a proxy answers with a page on which people sign in
	hollow      = "hollow"       // the API server answers that it is done, and does nothing
)

// faults decides what the next requests of each class meet.
type faults struct {
	mu struct {
		sync.Mutex
		next  map[string]planned
		twice map[string]int // by plural: so many frames of a watch are told again
	}
}

type planned struct {
	outcome string
	count   int
}

func newFaults() *faults {
	f := &faults{}
	f.heal()
	return f
}

// heal ends the faults.
func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.next, f.mu.twice = map[string]planned{}, map[string]int{}
}

func (f *faults) meet(class, outcome string, count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.next[class] = planned{outcome, count}
}

func (f *faults) repeat(plural string, frames int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.twice[plural] = frames
}

// take returns what a request of this class meets, "" for nothing.
func (f *faults) take(class string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.mu.next[class]
	if !ok {
		return ""
	}
	if p.count--; p.count == 0 {
		delete(f.mu.next, class)
	} else {
		f.mu.next[class] = p
	}
	return p.outcome
}

// takeRepeat returns how many frames of a watch are to be told again, 0 for none.
func (f *faults) takeRepeat(plural string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.mu.twice[plural]
	delete(f.mu.twice, plural)
	return n
}

// A link is the connection of one process to the API server.
type link struct {
	world *world
	name  string
	dead  atomic.Bool // the process was killed: nothing that it still sends arrives
}

var errDead = errors.New("the process is dead")

// RoundTrip is http.RoundTripper's.
func (l *link) RoundTrip(req *http.Request) (*http.Response, error) {
	info := apirequest.Parse(req)
	class := classOf(info)
	outcome := l.world.faults.take(class)
	if _, err := strconv.Atoi(outcome); err == nil && req.URL.Query().Has("dryRun") {
		outcome = breakBefore // a dry run that is refused leaves a child as it is, on purpose
	}
	if class != "" && (class != "watch" || outcome != "") {
		l.world.note("%s: %s %s %s", l.name, req.Method, req.URL.Path, outcome)
	}
	if outcome == lateBefore {
		l.wait(req)
	}
	if l.dead.Load() {
		return nil, errDead
	}
	if l.world.isDown() {
		return nil, errors.New("connection refused")
	}
	switch code, err := strconv.Atoi(outcome); {
	case outcome == breakBefore:
		return nil, errors.New("connection reset by peer")
	case outcome == pageMissing:
		return page(req, http.StatusNotFound, "text/html", "<html>no such page</html>"), nil
	case outcome == pageFine:
		return page(req, http.StatusOK, "text/html", "<html>sign in</html>"), nil
	case outcome == hollow:
		return page(req, http.StatusOK, "application/json", `{"apiVersion":"v1","kind":"Status","status":"Success"}`), nil
	case err == nil:
		return refusal(req, info, code), nil
	}
	restores := l.world.restores.Load()
	resp, err := l.world.server.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if outcome == lateAfter {
		l.wait(req)
	}
	if outcome == breakAfter || l.dead.Load() || restores != l.world.restores.Load() {
		resp.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	if info.Verb == "watch" && resp.StatusCode == http.StatusOK {
		resp.Body = &repeater{link: l, plural: info.Resource.Resource, under: resp.Body, frames: bufio.NewReaderSize(resp.Body, 512)}
	}
	return resp, nil
}

// classOf returns the class of a request by which faults are chosen, "" for one that
// meets none.
func classOf(info apirequest.Info) string {
	switch {
	case slices.Contains([]string{"", "leases", "events", "selfsubjectaccessreviews"}, info.Resource.Resource):
		return ""
	case info.Subresource != "":
		return info.Subresource
	}
	return info.Verb
}

// wait is how long a request or its answer is late.
func (l *link) wait(req *http.Request) {
	timer := time.NewTimer(l.world.lateness())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-req.Context().Done():
	}
}

func page(req *http.Request, code int, contentType, body string) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// refusal is an answer of the API server that names the object.
func refusal(req *http.Request, info apirequest.Info, code int) *http.Response {
	reason := map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 500: metav1.StatusReasonInternalError}[code]
	return page(req, code, "application/json", fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Status","status":"Failure","message":"by a webhook","reason":%q,"code":%d,"details":{"name":%q,"kind":%q}}`,
		reason, code, info.Name, info.Resource.Resource))
}

// A repeater is the body of the answer to a watch. It tells frames again, all that
// it was told to keep one after the other, as a watch does that begins again where it
// was some events ago.
type repeater struct {
	link   *link
	plural string
	under  io.ReadCloser
	frames *bufio.Reader
	rest   []byte
	kept   []byte
	keep   int // so many more frames are kept before they are told again
}

func (r *repeater) Read(to []byte) (int, error) {
	if len(r.rest) == 0 {
		frame, err := r.frames.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		if r.link.dead.Load() {
			return 0, errDead
		}
		r.rest = r.repeated(frame)
	}
	n := copy(to, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// repeated returns a frame, and those that follow it for the second time.
func (r *repeater) repeated(frame []byte) []byte {
	if bytes.Contains(frame, []byte(`"type":"BOOKMARK"`)) || bytes.Contains(frame, []byte(`"type":"ERROR"`)) {
		return frame
	}
	if r.keep == 0 {
		if r.keep = r.link.world.faults.takeRepeat(r.plural); r.keep == 0 {
			return frame
		}
	}
	r.kept = append(r.kept, frame...)
	if r.keep--; r.keep > 0 {
		return frame
	}
	frame = append(frame, r.kept...)
	r.kept = nil
	return frame
}

func (r *repeater) Close() error { return r.under.Close() }
