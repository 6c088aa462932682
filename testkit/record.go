package testkit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/resource"
)

// recordingFormat is the first line's, with the version of the format.
const recordingFormat = "roperator-recording/v1"

// A recordingHeader is the first line of a recording.
type recordingHeader struct {
	Format string `json:"format"`
	Salt   string `json:"salt,omitempty"` // of recordings of earlier builds
}

// A recordedCall is any other line: one call of a handler, which may have
// returned a response, an error, or both.
type recordedCall struct {
	Call     string          `json:"call"` // sync or finalize
	Request  json.RawMessage `json:"request"`
	Response *recordedAnswer `json:"response,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// A recordedAnswer is what a handler returned, of either call.
type recordedAnswer struct {
	Status       any              `json:"status,omitempty"`
	Children     []map[string]any `json:"children,omitempty"`
	KeepChildren bool             `json:"keepChildren,omitempty"`
	Finalized    bool             `json:"finalized,omitempty"`
	After        string           `json:"after,omitempty"` // Resync or Retry
	Events       []handler.Event  `json:"events,omitempty"`
}

// Record returns h, of which every call is written to w: a line of JSON with
// the request and what was returned. [Replay] makes a regression test of them.
// The values of Secrets, and kubectl's last-applied annotations, are replaced
// by texts from which nobody can find them out, equal ones by equal texts.
//
// Calls may be concurrent; w isn't written to concurrently, and not buffered.
// If it can't be written to, that is logged once, and h goes on unrecorded.
func Record(w io.Writer, h handler.Handler) handler.Handler {
	return &recording{w: w, inner: h, hide: byKey(rand.Text())}
}

// A recording records one handler.
type recording struct {
	inner handler.Handler
	hide  hider // by a key that is never written

	mu     sync.Mutex // guards what follows
	w      io.Writer
	begun  bool
	failed bool
}

// Finalizes passes the engine's question on.
func (r *recording) Finalizes() bool { return handler.Finalizes(r.inner) }

// Relates passes the engine's question on.
func (r *recording) Relates() bool { return handler.Relates(r.inner) }

// Relate passes the engine's question on. What it answers is seen by the related objects
// of the requests.
func (r *recording) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	return handler.Relate(r.inner, parent)
}

func (r *recording) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	resp, err := r.inner.Sync(ctx, req)
	answer, encodeErr := syncAnswer(resp)
	r.record(ctx, "sync", req, answer, err, encodeErr)
	return resp, err
}

func (r *recording) Finalize(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	resp, err := r.inner.Finalize(ctx, req)
	answer, encodeErr := finalizeAnswer(resp)
	r.record(ctx, "finalize", req, answer, err, encodeErr)
	return resp, err
}

// syncAnswer returns nil for nil.
func syncAnswer(resp *handler.SyncResponse) (*recordedAnswer, error) {
	if resp == nil {
		return nil, nil //nolint:nilnil // nothing was returned
	}
	out, err := newAnswer(resp.Status, resp.Resync, resp.Events)
	if err != nil {
		return nil, err
	}
	out.KeepChildren = resp.KeepChildren
	for i, child := range resp.Children {
		object, err := childObject(child)
		if err != nil {
			return nil, fmt.Errorf("child %d: %w", i, err)
		}
		out.Children = append(out.Children, object)
	}
	return out, nil
}

func finalizeAnswer(resp *handler.FinalizeResponse) (*recordedAnswer, error) {
	if resp == nil {
		return nil, nil //nolint:nilnil // nothing was returned
	}
	out, err := newAnswer(resp.Status, resp.Retry, resp.Events)
	if err != nil {
		return nil, err
	}
	out.Finalized = resp.Finalized
	return out, nil
}

// newAnswer returns what the responses of both methods have; after is when the
// handler wants to be called again.
func newAnswer(status any, after time.Duration, events []handler.Event) (*recordedAnswer, error) {
	out := &recordedAnswer{Events: events}
	if after != 0 {
		out.After = after.String()
	}
	var err error
	if out.Status, err = plainJSON(status); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return out, nil
}

// childObject returns a desired child as an object; one that is to be kept has
// nothing but its identity, and says so. One with fields that are left to others
// says which these are, and one that waits to be created says for what.
func childObject(child any) (map[string]any, error) {
	child, wishes := encode.Inner(child)
	keep, ok := child.(encode.Kept)
	if !ok {
		object, err := encode.Map(child)
		if err == nil && len(wishes.Left) > 0 {
			object["leave"] = wishes.Left
		}
		if err == nil && wishes.Closed {
			object["when"] = false
		}
		if err == nil && len(wishes.Needs) > 0 {
			object["after"], err = needTexts(wishes.Needs)
		}
		return object, err
	}
	if keep.Resource == nil {
		return nil, fmt.Errorf("handler.Keep of nil")
	}
	t := keep.Resource.Type()
	object := map[string]any{
		"apiVersion": t.APIVersion, "kind": t.Kind, "keep": true,
		"metadata": map[string]any{"name": keep.Resource.Name()},
	}
	if ns := keep.Resource.Namespace(); ns != "" {
		object["metadata"] = map[string]any{"name": keep.Resource.Name(), "namespace": ns}
	}
	return object, nil
}

// needTexts names what a child needs before it is created.
func needTexts(needs []any) ([]string, error) {
	texts := make([]string, 0, len(needs))
	for _, need := range needs {
		if ref, ok := need.(handler.Ref); ok {
			texts = append(texts, describe(ref.Type, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}))
			continue
		}
		t, key, err := encode.Identity(need)
		if err != nil {
			return nil, fmt.Errorf("handler.After: %w", err)
		}
		texts = append(texts, describe(t, key))
	}
	return texts, nil
}

// plainJSON returns a value as it is after a way through JSON.
func plainJSON(v any) (any, error) {
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

func (r *recording) record(ctx context.Context, call string, req *handler.SyncRequest, answer *recordedAnswer, callErr, encodeErr error) {
	line := recordedCall{Call: call, Response: answer}
	if callErr != nil {
		line.Error = callErr.Error()
	}
	err := encodeErr
	if err == nil {
		line.Request, err = hiddenRequest(req, r.hide)
	}
	if err == nil && answer != nil {
		for i, child := range answer.Children {
			answer.Children[i] = hidden(child, r.hide)
		}
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(line)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed {
		return
	}
	if err == nil {
		err = r.write(text)
	}
	if err != nil {
		r.failed = encodeErr == nil // what can't be encoded the engine refuses, too
		slog.Default().WarnContext(ctx, "handler call not recorded", "call", call, "error", err)
	}
}

// write is called under the lock.
func (r *recording) write(line []byte) error {
	if !r.begun {
		header, err := json.Marshal(recordingHeader{Format: recordingFormat})
		if err != nil {
			return err
		}
		line = append(append(header, '\n'), line...)
		r.begun = true
	}
	_, err := r.w.Write(append(line, '\n'))
	return err
}

// hiddenRequest returns a request as JSON without what must not be told.
func hiddenRequest(req *handler.SyncRequest, hide hider) (json.RawMessage, error) {
	parent := hidden(req.Parent.Unstructured().Object, hide)
	children := []map[string]any{}
	for child := range req.Children.All() {
		children = append(children, hidden(child.Unstructured().Object, hide))
	}
	request := map[string]any{"parent": parent, "children": children}
	if req.Related.Len() > 0 {
		related := []map[string]any{}
		for res := range req.Related.All() {
			related = append(related, hidden(res.Unstructured().Object, hide))
		}
		request["related"] = related
	}
	if len(req.LastErrors) > 0 {
		request["lastErrors"] = req.LastErrors
	}
	return json.Marshal(request)
}
