package faults

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/roperator/roperator/internal/apirequest"
)

// An Exchange is a request on its way, and its answer.
type Exchange struct {
	*http.Request
	On    apirequest.Info // what it is about. That of a creation has the name that its body has
	Name  string          // by which its faults are known, the same in every run
	Owner string          // the parent of its object, as far as the caller knows and says so
	Sent  []byte          // its body
	Watch bool
	Write bool // of an object, for good
	Trial bool // a write that is a dry run
}

// Read reads a request. Its name is for the caller to set.
func Read(req *http.Request) (*Exchange, error) {
	x := &Exchange{Request: req, On: apirequest.Parse(req), Trial: strings.Contains(req.URL.RawQuery, "dryRun=")}
	x.Watch = x.On.Verb == "watch"
	x.Write = req.Method != http.MethodGet && !x.Trial
	if req.Body == nil {
		return x, nil
	}
	sent, err := apirequest.Body(req)
	if err != nil {
		return nil, err
	}
	req.Body.Close()
	x.Sent, x.Request = sent, req.WithContext(req.Context()) // a copy, whose body may be another one
	x.Body = io.NopCloser(bytes.NewReader(sent))
	if req.Method == http.MethodPost && x.On.Subresource == "" {
		x.On.Name = apirequest.NameIn(sent)
	}
	return x, nil
}

// onItsOwn returns a request that goes on though its sender has given up. A watch ends with its sender.
func (x *Exchange) onItsOwn() *Exchange {
	if x.Watch {
		return x
	}
	out := *x
	out.Request = x.WithContext(context.WithoutCancel(x.Context()))
	return &out
}
