package storm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/internal/apirequest"
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
	on := apirequest.Parse(req)
	switch {
	case on.Resource.Resource == "":
		return p.world.server.RoundTrip(req)
	case on.Resource.Resource == "selfsubjectaccessreviews":
		return refusal(req, "404"), nil // it would allow everything, and takes its time
	case req.Method != http.MethodGet && isEvents(on.Resource):
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

func isEvents(r schema.GroupVersionResource) bool {
	return r.Resource == "events" && (r.Group == "" || r.Group == "events.k8s.io")
}

// exchangeOf reads a request about an object.
func (p *process) exchangeOf(req *http.Request, on apirequest.Info) (*exchange, error) {
	if req.Method == http.MethodPost && req.Body != nil { // the body has the name
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body.Close()
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
		on.Name = nameIn(body)
	}
	x := &exchange{Request: req, watch: on.Verb == "watch", lease: on.Resource.Resource == "leases" && on.Name == leaseName, trial: req.URL.Query().Has("dryRun")}
	x.name = p.world.nameOf(req, on)
	if x.trial {
		x.name += " (dry run)"
	}
	x.write = req.Method != http.MethodGet && !x.trial
	return x, nil
}

// nameOf names a request as people do.
func (w *world) nameOf(req *http.Request, on apirequest.Info) string {
	kind := w.kindOf(on.Resource.Resource)
	if on.Subresource != "" {
		kind = on.Subresource + " of " + kind
	}
	words := []string{on.Verb, kind}
	if at := strings.TrimPrefix(on.Namespace+"/"+on.Name, "/"); at != "" {
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
