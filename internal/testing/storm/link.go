package storm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

var errDead = errors.New("the process is dead")

// broken is a connection that broke.
func broken(why string) error { return &brokenError{why} }

type brokenError struct{ why string }

func (e *brokenError) Error() string   { return e.why }
func (e *brokenError) Timeout() bool   { return false }
func (e *brokenError) Temporary() bool { return true }

// An exchange is a request on its way.
type exchange struct {
	*http.Request
	name  string // the same in every run: "update ConfigMap ns/a", say
	watch bool
	lease bool
	write bool // of an object, for good
	trial bool // a write that is a dry run
}

// RoundTrip carries a request of the process to the API server. It is http.RoundTripper's.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.killed.Load() {
		return nil, errDead
	}
	on := parsePath(req.URL.Path)
	switch {
	case on.plural == "":
		return p.world.server.RoundTrip(req)
	case on.plural == "selfsubjectaccessreviews":
		return refusal(req, "404"), nil // it would allow everything, and takes its time
	case req.Method != http.MethodGet && on.plural == "events" && (on.group == "" || on.group == "events.k8s.io"):
		return answerTo(req, http.StatusCreated, `{"apiVersion":"events.k8s.io/v1","kind":"Event"}`), nil // nobody reads it
	}
	x, err := p.exchangeOf(req, on)
	if err != nil {
		return nil, err
	}
	c := reads
	switch {
	case x.write:
		c = writes
	case x.trial:
		c = trials
	}
	f := p.world.dice.next(x.name, c)
	p.world.asked(p, x, f)
	resp, err := p.carry(x, f)
	if x.write && err == nil && resp.StatusCode < 300 {
		p.world.wrote(p, x)
	}
	return resp, err
}

// exchangeOf reads a request; nil means that it meets no faults.
func (p *process) exchangeOf(req *http.Request, on objectPath) (*exchange, error) {
	if req.Method == http.MethodPost && req.Body != nil { // the body has the name
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body.Close()
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
		on.name = nameIn(body)
	}
	query := req.URL.Query()
	x := &exchange{Request: req, watch: isTrue(query.Get("watch")), lease: on.plural == "leases" && on.name == leaseName, trial: query.Has("dryRun")}
	x.name = p.world.nameOf(req, on, x.watch)
	if x.trial {
		x.name += " (dry run)"
	}
	x.write = req.Method != http.MethodGet && !x.trial
	return x, nil
}

func isTrue(text string) bool {
	is, err := strconv.ParseBool(text)
	return err == nil && is
}

// An objectPath is what a request is about.
type objectPath struct {
	group, namespace, plural, name, sub string
}

// parsePath reads the path of a request, whose plural is empty if it is about no object.
func parsePath(path string) (out objectPath) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(segments) > 2 && segments[0] == "api":
		segments = segments[2:]
	case len(segments) > 3 && segments[0] == "apis":
		out.group, segments = segments[1], segments[3:]
	default:
		return objectPath{}
	}
	if len(segments) > 2 && segments[0] == "namespaces" && !slices.Contains([]string{"status", "finalize"}, segments[2]) {
		out.namespace, segments = segments[1], segments[2:]
	}
	for i, to := range []*string{&out.plural, &out.name, &out.sub} {
		if i < len(segments) {
			*to = segments[i]
		}
	}
	return out
}

// nameOf names a request as people do.
func (w *world) nameOf(req *http.Request, on objectPath, watch bool) string {
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete", http.MethodGet: "get"}[req.Method]
	switch {
	case watch:
		verb = "watch"
	case verb == "get" && on.name == "":
		verb = "list"
	}
	kind := w.kindOf(on.plural)
	if on.sub != "" {
		kind = on.sub + " of " + kind
	}
	words := []string{verb, kind}
	if at := strings.TrimPrefix(on.namespace+"/"+on.name, "/"); at != "" {
		words = append(words, at)
	}
	if selector := req.URL.Query().Get("fieldSelector"); selector != "" {
		words = append(words, selector)
	}
	if req.URL.Query().Get("continue") != "" {
		words = append(words, "next page")
	}
	return strings.Join(words, " ")
}

func nameIn(body []byte) string {
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	return object.Metadata.Name
}

// carry carries a request that meets a fault.
func (p *process) carry(x *exchange, f fault) (*http.Response, error) {
	if err := p.sleep(x.Context(), f.Delay/2); err != nil {
		return nil, err
	}
	if p.world.isDown() || x.lease && p.isCut() {
		return nil, broken("connection refused")
	}
	switch f.Outcome {
	case killBefore:
		p.kill()
		return nil, errDead
	case breakBefore:
		return nil, broken("connection reset by peer")
	case "409", "429", "500", "503", "504":
		return refusal(x.Request, f.Outcome), nil
	}
	resp, err := p.world.server.RoundTrip(x.Request)
	if err != nil {
		return nil, err
	}
	if x.write && resp.StatusCode < 300 {
		p.world.changed()
	}
	if err := p.sleep(x.Context(), f.Delay-f.Delay/2); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return p.answer(x, f.Outcome, resp)
}

// answer is what the process gets to know of an answer.
func (p *process) answer(x *exchange, outcome string, resp *http.Response) (*http.Response, error) {
	opened := x.watch && resp.StatusCode == http.StatusOK
	switch {
	case outcome == killAfter:
		p.killNow()
	case outcome == breakAfter, outcome == cutAnswer && opened:
		resp.Body.Close()
		return nil, broken("connection reset by peer")
	case outcome == failAfter:
		resp.Body.Close()
		return refusal(x.Request, "500"), nil
	case outcome == timeAfter:
		resp.Body.Close()
		return refusal(x.Request, "504"), nil
	case opened:
		resp.Body = &watchBody{process: p, ctx: x.Context(), name: "frame of " + x.name, under: resp.Body, frames: bufio.NewReader(resp.Body), closed: make(chan struct{})}
		return resp, nil
	}
	if p.killed.Load() {
		resp.Body.Close()
		return nil, errDead
	}
	if outcome != cutAnswer {
		return resp, nil
	}
	raw, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(raw[:len(raw)/2]), cutReader{}))
	return resp, nil
}

type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// refusal is the answer of a server that does nothing.
func refusal(req *http.Request, code string) *http.Response {
	n, _ := strconv.Atoi(code) // it is one of carry's
	reason := map[string]string{"404": "NotFound", "409": "Conflict", "429": "TooManyRequests", "500": "InternalError", "503": "ServiceUnavailable", "504": "Timeout"}[code]
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Status","status":"Failure","message":"a fault of the storm","reason":%q,"code":%s}`, reason, code)
	resp := answerTo(req, n, body)
	if n == http.StatusTooManyRequests {
		resp.Header.Set("Retry-After", "1")
	}
	return resp
}

func answerTo(req *http.Request, code int, body string) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}
