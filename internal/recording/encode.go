package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/encode"
)

// Encode returns the line of one call, without a newline. What isn't told is replaced by
// texts of hide: see [Hidden]. The line keeps nothing of the call alive. A call that can't
// be encoded is an error that quotes no value, and so is one with a value that panics when it is encoded.
func Encode(c Call, hide Hider) (text []byte, err error) {
	defer func() {
		if recover() != nil {
			text, err = nil, fmt.Errorf("%s: a value of the response panics when it is encoded", c.Kind)
		}
	}()
	text, err = encodeCall(c, hide)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Kind, err)
	}
	return text, nil
}

func encodeCall(c Call, hide Hider) ([]byte, error) {
	if err := c.Kind.check(); err != nil {
		return nil, err
	}
	out := line{Call: c.Kind}
	if c.Err != nil {
		out.Error = c.Err.Error()
	}
	var err error
	if out.Response, err = AnswerOf(c, hide); err != nil {
		return nil, err
	}
	if out.Request, err = hiddenRequest(c.Request, hide); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	return json.Marshal(out)
}

// AnswerOf returns what a call returned besides its error, nil if nothing. What isn't told
// of its children is replaced by texts of hide.
func AnswerOf(c Call, hide Hider) (*Answer, error) {
	switch resp := c.Response.(type) {
	case nil:
		return nil, nil
	case *handler.SyncResponse:
		if resp == nil {
			return nil, nil
		}
		return syncAnswer(resp, hide)
	case *handler.FinalizeResponse:
		if resp == nil {
			return nil, nil
		}
		return finalizeAnswer(resp)
	}
	return nil, fmt.Errorf("response: a %T isn't one", c.Response)
}

func syncAnswer(resp *handler.SyncResponse, hide Hider) (*Answer, error) {
	out, err := newAnswer(resp.Status, resp.Resync, resp.Events)
	if err != nil {
		return nil, err
	}
	out.KeepChildren = resp.KeepChildren
	for i, child := range resp.Children {
		object, err := childObject(child, hide)
		if err != nil {
			return nil, fmt.Errorf("child %d: %w", i, err)
		}
		out.Children = append(out.Children, object)
	}
	return out, nil
}

func finalizeAnswer(resp *handler.FinalizeResponse) (*Answer, error) {
	out, err := newAnswer(resp.Status, resp.Retry, resp.Events)
	if err != nil {
		return nil, err
	}
	out.Finalized = resp.Finalized
	return out, nil
}

// newAnswer returns what the responses of both methods have; after is when the
// handler wants to be called again.
func newAnswer(status any, after time.Duration, events []handler.Event) (*Answer, error) {
	out := &Answer{Events: events}
	if after != 0 {
		out.After = after.String()
	}
	var err error
	if out.Status, err = Plain(status); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return out, nil
}

// BesideError returns what counts of an answer that came along with an error: its status,
// its events, and when to try again.
func (a *Answer) BesideError() *Answer {
	return &Answer{Status: a.Status, After: a.After, Events: a.Events}
}

// Plain returns a copy of a value as it is after a way through JSON, of the types that
// unstructured.Unstructured uses.
func Plain(v any) (any, error) {
	text, err := json.Marshal(map[string]any{"value": v})
	if err != nil {
		return nil, err
	}
	wrapped, err := encode.Map(json.RawMessage(text))
	if err != nil {
		return nil, err
	}
	return wrapped["value"], nil
}

// hiddenRequest returns a request as JSON without what must not be told.
func hiddenRequest(req *handler.SyncRequest, hide Hider) (json.RawMessage, error) {
	if req == nil || req.Parent == nil {
		return nil, errors.New("no parent")
	}
	request := map[string]any{
		"parent":   Hidden(req.Parent.Unstructured().Object, hide),
		"children": hiddenObjects(req.Children, hide),
	}
	if req.Related.Len() > 0 {
		request["related"] = hiddenObjects(req.Related, hide)
	}
	if len(req.LastErrors) > 0 {
		request["lastErrors"] = req.LastErrors
	}
	return json.Marshal(request)
}

func hiddenObjects(objects handler.Objects, hide Hider) []map[string]any {
	out := make([]map[string]any, 0, objects.Len())
	for res := range objects.All() {
		out = append(out, Hidden(res.Unstructured().Object, hide))
	}
	return out
}
