package reconcile_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// Errors, statuses and children of a handler have methods. A panic of one of them ended the process of all operators
// where no recover was: that of Error first of all, on a nil pointer that was returned as an error.

// A sizeError needs its pointer.
type sizeError struct{ text string }

func (e *sizeError) Error() string { return e.text }

// checkSize is the commonest slip of Go: without a mistake, the error that it returns isn't nil.
func checkSize() error {
	var mistake *sizeError
	return mistake
}

// A hostileError panics in each method, with a value that panics when it is printed.
type hostileError struct{}

func (hostileError) Error() string                { panic(hostileError{}) }
func (hostileError) Unwrap() error                { panic(hostileError{}) }
func (hostileError) Is(error) bool                { panic(hostileError{}) }
func (hostileError) As(any) bool                  { panic(hostileError{}) }
func (hostileError) Permanent() bool              { panic(hostileError{}) }
func (hostileError) DeleteChildren() bool         { panic(hostileError{}) }
func (hostileError) MarshalJSON() ([]byte, error) { return nil, hostileError{} }

// A politeError has a text, and is hostile otherwise.
type politeError struct{ hostileError }

func (politeError) Error() string { return "polite" }

// An innerError has the text of an error that isn't there.
type innerError struct{ err error }

func (e innerError) Error() string { return e.err.Error() }
func (e innerError) Unwrap() error { return e.err }

// A onceError has a text once.
type onceError struct{ asked *atomic.Int32 }

func (e onceError) Error() string {
	if e.asked.Add(1) > 1 {
		panic("asked again")
	}
	return "once"
}

// An endingError ends the goroutine that asks for its text.
type endingError struct{}

func (endingError) Error() string { runtime.Goexit(); return "" }

// A selfError wraps itself.
type selfError struct{}

func (selfError) Error() string   { return "itself" }
func (e selfError) Unwrap() error { return e }

// A valueOf is a status, a child or a need that is encoded by a function.
type valueOf func() ([]byte, error)

func (v valueOf) MarshalJSON() ([]byte, error) { return v() }

// hostileErrors are errors that a handler may return, each with the text that the user is told.
func hostileErrors() map[string]struct {
	reason string
	err    func() error
	text   string
	is     error // is found by errors.Is; nil: nothing is to be found
	never  bool  // it isn't tried again
} {
	return map[string]struct {
		reason string
		err    func() error
		text   string
		is     error
		never  bool
	}{
		"NilPointer":   {reason: "the text says what the author has to change", err: checkSize, text: "returned a nil *reconcile_test.sizeError as an error: return a plain nil instead"},
		"NilPermanent": {reason: "what wraps it still counts", err: func() error { return handler.Permanent(checkSize()) }, text: "returned a *handler.permanentError that wraps a nil *reconcile_test.sizeError as an error: return a plain nil instead", never: true},
		"Inner":        {reason: "the type is named that has the mistake", err: func() error { return innerError{} }, text: "returned a reconcile_test.innerError whose method Error panics: runtime error: invalid memory address or nil pointer dereference"},
		"Hostile":      {reason: "not even what it panics with can be printed", err: func() error { return hostileError{} }, text: "returned a reconcile_test.hostileError whose method Error panics: a reconcile_test.hostileError that panics when it is printed"},
		"Polite":       {reason: "errors.Is calls other methods than Error", err: func() error { return politeError{} }, text: "polite", is: politeError{}},
		"PoliteInside": {reason: "and calls them of all that is wrapped", err: func() error { return errors.Join(politeError{}, fs.ErrClosed) }, text: "polite\nfile already closed", is: fs.ErrClosed},
		"Once":         {reason: "the text is taken once", err: func() error { return onceError{new(atomic.Int32)} }, text: "once"},
		"Goexit":       {reason: "the text is taken in the goroutine of the call", err: func() error { return endingError{} }, text: "ended its goroutine (runtime.Goexit), as a failed assertion of a test does"},
		"Endless":      {reason: "errors.Is would never return", err: func() error { return selfError{} }, text: "itself", is: selfError{}},
		"Panic":        {reason: "a panic may have such a value, too", err: func() error { panic(hostileError{}) }, text: "panic: a reconcile_test.hostileError that panics when it is printed"},
	}
}

func TestHostileErrors(t *testing.T) {
	methods := map[string]struct {
		method string
		status bool // a status comes with the error
		ready  bool // the operator keeps conditions
	}{
		"Sync":                 {method: "Sync"},
		"SyncWithStatus":       {method: "Sync", status: true},
		"SyncWithConditions":   {method: "Sync", status: true, ready: true},
		"Finalize":             {method: "Finalize"},
		"FinalizeWithStatus":   {method: "Finalize", status: true},
		"Relate":               {method: "Relate"},
		"RelateWithConditions": {method: "Relate", ready: true},
	}
	for kind, tc := range hostileErrors() {
		for name, in := range methods {
			t.Run(kind+"/"+name, func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					var calls callLog
					fails := func(method string, parent *resource.Resource) error {
						if method != in.method || parent.Name() != "one" {
							return nil
						}
						calls.note()
						return tc.err()
					}
					status := map[string]any{"state": "broken"}
					h := handler.Funcs{
						SyncFunc: func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
							switch err := fails("Sync", req.Parent); {
							case err != nil && in.status:
								return &handler.SyncResponse{Status: status}, err
							case err != nil:
								return nil, err
							}
							return rig.Copier(ctx, req)
						},
						FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
							switch err := fails("Finalize", req.Parent); {
							case err != nil && in.status:
								return &handler.FinalizeResponse{Status: status}, err
							case err != nil:
								return nil, err
							}
							return &handler.FinalizeResponse{Finalized: true}, nil
						},
						RelateFunc: func(parent *resource.Resource) ([]handler.Ref, error) { return nil, fails("Relate", parent) },
					}
					cfg := rig.Config()
					cfg.ReadyCondition = in.ready
					cfg.Related = []config.Related{{Type: k8s.Secret}}
					server := rig.Server()
					r := rig.StartWith(t, server, cfg, h, manager.Options{RESTConfig: server.RESTConfig(), KeepJournal: true})
					r.Create("one", "v")
					r.Create("other", "v")
					if in.method == "Finalize" {
						rig.Elapse(time.Second)
						require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
					}
					rig.Elapse(failingFor)
					if tc.never {
						require.LessOrEqual(t, calls.len(), 2, tc.reason)
					} else {
						require.InDelta(t, 9, calls.len(), 2, "the backoff: %s", tc.reason)
					}
					text := "handler: " + in.method + ": " + tc.text
					errs := r.Errors("one")
					require.GreaterOrEqual(t, len(errs), calls.len(), "each call counts as failed")
					require.EqualError(t, errs[0], text, tc.reason)
					require.Equal(t, calls.len(), told(r, `msg="sync failed"`))
					require.Equal(t, tc.is != nil, errors.Is(errs[0], cmpOr(tc.is)), tc.reason)
					require.NotErrorIs(t, errs[0], fs.ErrInvalid, tc.reason)
					require.NotErrorAs(t, errs[0], new(*fs.PathError), tc.reason)
					require.NotNil(t, r.Get(k8s.ConfigMap, "other"), "the other parent is served")
					r.SetSpec("other", "v2")
					rig.Elapse(time.Second)
					require.Empty(t, r.Errors("other"))
					r.Stop()
				})
			})
		}
	}
}

// cmpOr returns an error that is in no other, in the place of nil.
func cmpOr(err error) error {
	if err == nil {
		return fs.ErrInvalid
	}
	return err
}

// TestHostileErrors_Plan: a plan tells of the parent that fails, and plans the others.
func TestHostileErrors_Plan(t *testing.T) {
	for kind, tc := range hostileErrors() {
		t.Run(kind, func(t *testing.T) {
			h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				if req.Parent.Name() == "one" {
					return nil, tc.err()
				}
				return rig.Copier(ctx, req)
			})
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				rig.CreateParent(t, server, "one", "v")
				rig.CreateParent(t, server, "other", "v")
				changes, err := rig.Plan(server, rig.Config(), h)
				require.EqualError(t, err, "Parent ns/one: handler: Sync: "+tc.text, tc.reason)
				require.True(t, slices.ContainsFunc(changes, func(c plan.Change) bool { return c.Parent == rig.Key("other") }))
			})
			if kind == "Goexit" {
				return // of the goroutine that plans: there, an assertion of a test is to end it
			}
			planner, err := reconcile.NewOfflinePlanner(defaults.Apply(rig.Config()), h)
			require.NoError(t, err)
			_, err = planner.Plan(t.Context(), &handler.SyncRequest{Parent: rig.CreateParent(t, rig.Server(), "one", "v")})
			require.EqualError(t, err, "handler: Sync: "+tc.text, tc.reason)
		})
	}
}

// TestHostileValues: what a response holds panics when it is encoded, or fails to be with an error that panics.
func TestHostileValues(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		response handler.SyncResponse
		text     string // of the error of the reconciliation, and of the plan
	}{
		"StatusNil": {
			text:     "invalid response: Parent ns/one: status: returned a *json.MarshalerError that wraps a nil *reconcile_test.sizeError as an error: return a plain nil instead",
			reason:   "an error of a MarshalJSON may be a nil pointer as well",
			response: handler.SyncResponse{Status: valueOf(func() ([]byte, error) { return nil, checkSize() })},
		},
		"StatusHostile": {
			text:     "invalid response: Parent ns/one: status: returned a *json.MarshalerError that wraps a reconcile_test.hostileError whose method Error panics: a reconcile_test.hostileError that panics when it is printed",
			reason:   "encoding/json asks the error for its text later",
			response: handler.SyncResponse{Status: hostileError{}},
		},
		"StatusPanics": {
			text:     "invalid response: Parent ns/one: status: panic: a reconcile_test.hostileError that panics when it is printed",
			reason:   "a panic has a stack, which is in the log",
			response: handler.SyncResponse{Status: valueOf(func() ([]byte, error) { panic(hostileError{}) })},
		},
		"ChildNil": {
			text:     "invalid response: child 0: reconcile_test.valueOf: returned a *json.MarshalerError that wraps a nil *reconcile_test.sizeError as an error: return a plain nil instead",
			reason:   "the same holds for a child",
			response: handler.SyncResponse{Children: []any{valueOf(func() ([]byte, error) { return nil, checkSize() })}},
		},
		"ChildHostile": {
			text:     "invalid response: child 0: reconcile_test.hostileError: returned a *json.MarshalerError that wraps a reconcile_test.hostileError whose method Error panics: a reconcile_test.hostileError that panics when it is printed",
			reason:   "Desire makes a text of the error",
			response: handler.SyncResponse{Children: []any{hostileError{}}},
		},
		"ChildPanics": {
			text:     "invalid response: child 0: reconcile_test.valueOf: encode: panic: a reconcile_test.hostileError that panics when it is printed",
			reason:   "it is encoded within a recover, and the panic is printed there",
			response: handler.SyncResponse{Children: []any{valueOf(func() ([]byte, error) { panic(hostileError{}) })}},
		},
		"ValueInChild": {
			text:   "invalid response: child 0: v1/ConfigMap one: map[string]interface {}: data.value: returned a *json.MarshalerError that wraps a reconcile_test.hostileError whose method Error panics: a reconcile_test.hostileError that panics when it is printed",
			reason: "the error names the field",
			response: handler.SyncResponse{Children: []any{map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "one"}, "data": map[string]any{"value": hostileError{}},
			}}},
		},
		"EndlessInChild": {
			text:   "invalid response: child 0: v1/ConfigMap one: map[string]interface {}: data.value: json: error calling MarshalJSON for type reconcile_test.valueOf: itself",
			reason: "the search for the field calls errors.As",
			response: handler.SyncResponse{Children: []any{map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "one"},
				"data": map[string]any{"value": valueOf(func() ([]byte, error) { return nil, selfError{} })},
			}}},
		},
		"Need": {
			text:     "invalid response: child 0: v1/ConfigMap ns/one: handler.After: need 0: reconcile_test.hostileError: returned a *json.MarshalerError that wraps a reconcile_test.hostileError whose method Error panics: a reconcile_test.hostileError that panics when it is printed",
			reason:   "a need is encoded only for its name",
			response: handler.SyncResponse{Children: []any{handler.After(rig.Copied("one", "v"), hostileError{})}},
		},
		"NeedPanics": {
			text:     "invalid response: child 0: v1/ConfigMap ns/one: handler.After: need 0: reconcile_test.valueOf: panic: a reconcile_test.hostileError that panics when it is printed",
			reason:   "within a recover, and the panic is printed there",
			response: handler.SyncResponse{Children: []any{handler.After(rig.Copied("one", "v"), valueOf(func() ([]byte, error) { panic(hostileError{}) }))}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				if req.Parent.Name() == "one" {
					return &tc.response, nil
				}
				return rig.Copier(ctx, req)
			})
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				r := rig.StartWith(t, server, rig.Config(), h, manager.Options{RESTConfig: server.RESTConfig(), KeepJournal: true})
				r.Create("one", "v")
				r.Create("other", "v")
				rig.Elapse(failingFor)
				errs := r.Errors("one")
				require.InDelta(t, 9, len(errs), 2, "the backoff: %s", tc.reason)
				require.EqualError(t, errs[0], tc.text, tc.reason)
				require.NotNil(t, r.Get(k8s.ConfigMap, "other"), "the other parent is served")
				r.Stop()
				_, err := rig.Plan(r.Server, rig.Config(), h)
				require.EqualError(t, err, "Parent ns/one: "+tc.text, tc.reason)
			})
			planner, err := reconcile.NewOfflinePlanner(defaults.Apply(rig.Config()), h)
			require.NoError(t, err)
			_, err = planner.Plan(t.Context(), &handler.SyncRequest{Parent: rig.CreateParent(t, rig.Server(), "one", "v")})
			require.EqualError(t, err, tc.text, tc.reason)
		})
	}
}

// A hostileLog panics at each line that tells how a reconciliation has ended, or that it has panicked.
type hostileLog struct{ lines *atomic.Int32 }

func (hostileLog) Enabled(context.Context, slog.Level) bool { return true }
func (l hostileLog) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l hostileLog) WithGroup(string) slog.Handler          { return l }
func (l hostileLog) Handle(_ context.Context, line slog.Record) error {
	if line.Message == "sync failed" || line.Message == "reconciliation panicked" {
		l.lines.Add(1)
		panic(hostileError{})
	}
	return nil
}

// TestHostileLog: what comes after the reconciliation has a recover, too. The reconciliation counts as failed.
func TestHostileLog(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		log := hostileLog{new(atomic.Int32)}
		var calls callLog
		m, err := rig.NewOne(rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			if req.Parent.Name() == "other" {
				return rig.Copier(ctx, req)
			}
			calls.note()
			return nil, errBroken
		}), manager.Options{RESTConfig: server.RESTConfig(), Logger: slog.New(log)})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Start(ctx) }()
		rig.CreateParent(t, server, "one", "v")
		rig.CreateParent(t, server, "other", "v")
		rig.Elapse(failingFor)
		requirePace(t, byBackoff, calls.times(0), "it is tried again")
		require.EqualValues(t, 2*calls.len(), log.lines.Load(), "the panic is logged, too, if it can be")
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("other")))
		cancel()
		require.NoError(t, <-ended)
	})
}
