package sim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/testing/past"
)

// A process is one run of an operator: its connection to the API server, and
// what it was told over it.
type process struct {
	*world
	replica string
	cancel  context.CancelFunc
	dead    chan struct{} // closed when it was killed
	killed  atomic.Bool
	witness *past.Witness

	mu struct {
		sync.Mutex
		told      map[string]seen        // newest state that an answer to a write has told, by kind and key
		deleting  map[types.UID]struct{} // it has asked for that
		deleted   map[types.UID]struct{} // told to be gone
		syncing   map[types.UID]struct{}
		shown     map[types.UID]struct{} // parents and children
		finalized map[types.UID]struct{} // parents that the handler has let go
		anew      map[string]struct{}    // children that it has deleted, and not created since
		lists     map[string]int         // by name
		passes    map[string]*pass       // the last of each parent, by its name
		watches   map[past.Ref]int       // of related objects that are open
	}
}

// A pass is what came of a call of Sync.
type pass struct {
	wanted  []string            // children, as resource/name
	none    bool                // it came to nothing, so nothing may follow
	failed  map[string]struct{} // writes
	parent  types.UID
	parts   map[string]shownPart // those that are wanted, in runs with readiness
	stepped map[string]struct{}  // those that the pass has made unavailable
}

// seen is what a state is told from another by.
type seen struct {
	uid     types.UID
	version int64
}

var errDead = errors.New("the process is dead")

// kill ends the process: nothing that it still tries has an effect.
func (p *process) kill() {
	if p.killed.CompareAndSwap(false, true) {
		close(p.dead)
		p.cancel()
	}
}

func nameOf(req *http.Request, body []byte) string {
	name := req.Method + " " + req.URL.Path
	if req.Method == http.MethodPost {
		name += "/" + metaIn(body).Metadata.Name
	}
	query := req.URL.Query()
	if query.Get("watch") != "" {
		name = "WATCH " + req.URL.Path
	}
	if r, related := watched(req.URL); related && req.Method == http.MethodGet && (r.Name != "" || r.Selector != "") {
		name += "?" + r.Name + r.Selector
	}
	if query.Has("dryRun") {
		name += "?dryRun"
	}
	return name
}

// RoundTrip is http.RoundTripper's.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/selfsubjectaccessreviews") { // a question that stores nothing
		return p.server.RoundTrip(req)
	}
	resp, name, err := p.roundTrip(req)
	code := 0
	if err == nil {
		code = resp.StatusCode
	}
	p.noteFailure(name, code)
	return resp, err
}

func (p *process) roundTrip(req *http.Request) (_ *http.Response, name string, _ error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, name, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	name = nameOf(req, body)
	write := req.Method != http.MethodGet
	outcomes := requestOutcomes(write)
	rate := p.faults.rates.request
	if req.URL.Query().Get("continue") != "" {
		rate, outcomes = 2*rate, []string{compact, compact, "500", breakBefore}
	}
	f := p.faults.next(name, rate, outcomes...)
	p.sent(name, f)
	p.checkLease(req, name)
	p.checkRefused(req, name)
	if err := p.sleep(req.Context(), f.Delay/2); err != nil {
		return nil, name, err
	}
	if !p.outage().IsZero() || strings.Contains(name, "/leases") && p.isCut() {
		p.count(sawRefused)
		return nil, name, broken("connection refused")
	}
	switch f.Outcome {
	case killBefore:
		p.kill()
		return nil, name, errDead
	case compact:
		p.server.Compact()
	case breakBefore:
		return nil, name, broken("connection reset by peer")
	case "409", "429", "500", "503", "504":
		return refusal(req, f.Outcome), name, nil
	}
	p.checkWrite(req, name, body)
	part, parent := p.partIn(req, name), p.parentIn(req, name)
	resp, err := p.server.RoundTrip(req)
	if err != nil {
		return nil, name, err
	}
	p.checkDone(req, name, part, resp.StatusCode)
	p.checkLetGo(name, parent)
	p.notice(req, name, resp.StatusCode)
	if err := p.sleep(req.Context(), f.Delay-f.Delay/2); err != nil {
		resp.Body.Close()
		return nil, name, err
	}
	if strings.HasPrefix(name, "WATCH ") && resp.StatusCode == http.StatusOK && f.Outcome == "" {
		f.Outcome = "ok"
	}
	resp, err = p.answered(req, name, f.Outcome, resp)
	return resp, name, err
}

func (p *process) answered(req *http.Request, name, outcome string, resp *http.Response) (*http.Response, error) {
	watch := strings.HasPrefix(name, "WATCH ") && resp.StatusCode == http.StatusOK
	switch {
	case outcome == killAfter:
		p.kill()
	case outcome == breakAfter, outcome == cutAnswer && watch:
		resp.Body.Close()
		return nil, broken("connection reset by peer")
	case outcome == failAfter:
		resp.Body.Close()
		return refusal(req, "500"), nil
	case outcome == timeAfter:
		resp.Body.Close()
		return refusal(req, "504"), nil
	case watch:
		w := p.opened(req.URL, &watchBody{process: p, ctx: req.Context(), name: "frame " + req.URL.Path, under: resp.Body, frames: bufio.NewReader(resp.Body), closed: make(chan struct{})})
		resp.Body = w
		return resp, nil
	}
	if p.killed.Load() {
		resp.Body.Close()
		return nil, errDead
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if outcome == cutAnswer && len(raw) > 1 {
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(raw[:len(raw)/2]), errReader{}))
		return resp, nil
	}
	if req.Method != http.MethodGet && resp.StatusCode < 300 && !req.URL.Query().Has("dryRun") {
		p.acknowledge(raw)
	}
	resp.Body = io.NopCloser(bytes.NewReader(raw))
	return resp, nil
}

// notice counts what a request tells of its cause.
func (p *process) notice(req *http.Request, name string, code int) {
	query := req.URL.Query()
	list := query.Get("sendInitialEvents") == "true" || req.Method == http.MethodGet && query.Has("labelSelector") && query.Get("watch") == ""
	switch {
	case query.Get("continue") != "" && code == http.StatusGone:
		p.count(sawExpiredPage)
	case query.Get("continue") != "":
		p.count(sawPage)
	case list && code == http.StatusOK:
		p.mu.Lock()
		p.mu.lists[name]++
		again := p.mu.lists[name] > 1
		p.mu.Unlock()
		if again {
			p.count(sawRelist)
		}
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// sleep returns an error if the request or the process ends meanwhile.
func (p *process) sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-p.dead:
		}
	}
	if p.killed.Load() {
		return errDead
	}
	return ctx.Err()
}

// acknowledge notes what the answer to a write has told.
func (p *process) acknowledge(raw []byte) {
	o := metaIn(raw)
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.Kind == "Status" {
		p.mu.deleted[o.Details.UID] = struct{}{}
		return
	}
	if o.Metadata.DeletionTimestamp != "" && len(o.Metadata.Finalizers) == 0 {
		p.mu.deleted[o.Metadata.UID] = struct{}{} // it went with its last finalizer
		return
	}
	key := o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
	now := seen{o.Metadata.UID, number(o.Metadata.ResourceVersion)}
	if now.version > p.mu.told[key].version {
		p.mu.told[key] = now
	}
}

type brief struct {
	Kind     string
	Metadata struct {
		Name, Namespace, ResourceVersion, DeletionTimestamp string
		UID                                                 types.UID
		Finalizers                                          []string
		Labels                                              map[string]string
		OwnerReferences                                     []struct{ UID types.UID }
	}
	Details struct{ UID types.UID } // of a Status
}

func metaIn(raw []byte) brief {
	var o brief
	if json.Unmarshal(raw, &o) != nil {
		return brief{}
	}
	return o
}

func number(version string) int64 {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// broken is a connection that broke.
func broken(why string) error { return &brokenError{why} }

type brokenError struct{ why string }

func (e *brokenError) Error() string   { return e.why }
func (e *brokenError) Timeout() bool   { return false }
func (e *brokenError) Temporary() bool { return true }

func refusal(req *http.Request, code string) *http.Response {
	n, _ := strconv.Atoi(code)
	reason := map[string]string{"409": "Conflict", "429": "TooManyRequests", "500": "InternalError", "503": "ServiceUnavailable", "504": "Timeout"}[code]
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Status","status":"Failure","message":"simulated","reason":%q,"code":%s}`, reason, code)
	header := http.Header{"Content-Type": {"application/json"}}
	if n == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	return &http.Response{
		Status: code + " " + http.StatusText(n), StatusCode: n, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}

// A watchBody is the body of the answer to a watch, whose frames are late, cut
// or lost with the connection.
type watchBody struct {
	*process
	ctx    context.Context //nolint:containedctx // that of the request
	name   string
	under  io.ReadCloser
	frames *bufio.Reader
	rest   []byte
	err    error
	once   sync.Once
	closed chan struct{}
	ended  func() // is called when it is closed; may be nil
}

func (b *watchBody) Read(to []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.rest, b.err = b.frame()
	}
	n := copy(to, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *watchBody) frame() ([]byte, error) {
	frame, err := b.frames.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.Contains(frame, []byte(`"type":"ERROR"`)):
		b.count(sawExpired)
	case bytes.Contains(frame, []byte(`"type":"BOOKMARK"`)) && !bytes.Contains(frame, []byte(metav1.InitialEventsAnnotationKey)):
		b.count(sawBookmark)
	}
	f := b.faults.next(b.name, b.faults.rates.frame, frameOutcomes()...)
	wait := f.Delay
	if f.Outcome == frameHang {
		wait = 45 * time.Second // then the client's ping goes unanswered
	}
	if err := b.pause(wait); err != nil {
		return nil, err
	}
	switch f.Outcome {
	case frameEnd:
		return nil, io.EOF
	case frameHalf:
		return frame[:len(frame)/2], io.ErrUnexpectedEOF
	case frameHang:
		return nil, broken("client connection lost")
	case frameGone:
		return []byte(`{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","status":"Failure","message":"too old resource version","reason":"Expired","code":410}}` + "\n"), io.EOF
	}
	return frame, nil
}

func (b *watchBody) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.closed:
		return errors.New("read on closed body")
	case <-b.dead:
	}
	if b.killed.Load() {
		return errDead
	}
	return b.ctx.Err()
}

// opened notes that there is a watch, until it is closed.
func (p *process) opened(at *url.URL, b *watchBody) *watchBody {
	r, related := watched(at)
	if !related {
		return b
	}
	note := func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.watches[r] += n
	}
	note(1)
	b.ended = func() { note(-1) }
	return b
}

func (b *watchBody) Close() error {
	b.once.Do(func() {
		close(b.closed)
		if b.ended != nil {
			b.ended()
		}
	})
	return b.under.Close()
}
