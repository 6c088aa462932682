package failable_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/failable"
	"github.com/roperator/roperator/resource"
)

// request is what the engine shows of a Database of the given size.
func request(size int) *handler.SyncRequest {
	parent, err := resource.New(fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Database",`+
		`"metadata":{"namespace":"shop","name":"orders","uid":"1","resourceVersion":"7"},"spec":{"size":%d}}`, size))
	if err != nil {
		fmt.Println(err)
	}
	return &handler.SyncRequest{Parent: parent}
}

type Database struct {
	Spec struct {
		Size int `json:"size"`
	} `json:"spec"`
}

type Status struct {
	Phase   failable.Outcome `json:"phase"`
	Message string           `json:"message,omitempty"`
}

// databases is a failable.Handler.
type databases struct {
	cloud map[string]bool // what has to be cleaned up
}

func (databases) Validate(_ context.Context, req *handler.SyncRequest) (Database, error) {
	db, err := handler.ParentAs[Database](req)
	if err == nil && db.Spec.Size < 1 {
		err = errors.New("spec.size: must be at least 1")
	}
	return db, handler.Permanent(err)
}

func (databases) SyncChildren(_ context.Context, db Database, req *handler.SyncRequest) ([]any, error) {
	if db.Spec.Size > 5 {
		return nil, errors.New("the cloud is full")
	}
	return []any{map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"name": req.Parent.Name()},
	}}, nil
}

func (databases) DetermineStatus(_ context.Context, _ *handler.SyncRequest, result failable.Result[Database]) any {
	status := Status{Phase: result.Outcome()}
	if err := result.Err(); err != nil {
		status.Message = err.Error()
	}
	return status
}

func (d databases) Finalize(_ context.Context, req *handler.SyncRequest) error {
	if d.cloud[req.Parent.Name()] {
		return errors.New("waiting for the cloud to drop the disk")
	}
	return nil
}

func Example() {
	h := failable.Wrap(databases{}, failable.Options{
		Backoff: failable.FixedInterval(30 * time.Second),
	})
	for _, size := range []int{3, 0, 9} {
		response, err := h.Sync(context.Background(), request(size))
		fmt.Printf("%+v\n  %d children, again after: %s, error: %v\n",
			response.Status, len(response.Children), response.Resync, err)
	}
	// Output:
	// {Phase:SyncSucceeded Message:}
	//   1 children, again after: 0s, error: <nil>
	// {Phase:ValidationFailed Message:spec.size: must be at least 1}
	//   0 children, again after: 0s, error: spec.size: must be at least 1
	// {Phase:SyncFailed Message:the cloud is full}
	//   0 children, again after: 30s, error: the cloud is full
}

func ExampleWrap() {
	cloud := map[string]bool{"orders": true}
	h := failable.Wrap(databases{cloud}, failable.Options{})
	for range 2 {
		response, err := h.Finalize(context.Background(), request(3))
		fmt.Printf("%t %+v %v\n", response.Finalized, response.Status, err)
		delete(cloud, "orders")
	}
	// Output:
	// false {Phase:FinalizeFailed Message:waiting for the cloud to drop the disk} waiting for the cloud to drop the disk
	// true {Phase:FinalizeSucceeded Message:} <nil>
}

func ExampleFuncs() {
	h := failable.Wrap(failable.Funcs(
		func(_ context.Context, db Database, _ *handler.SyncRequest) ([]any, error) {
			if db.Spec.Size > 5 {
				return nil, errors.New("the cloud is full")
			}
			return nil, nil
		},
		func(_ context.Context, _ *handler.SyncRequest, result failable.Result[Database]) any {
			return map[string]any{"ready": result.OK()}
		},
	), failable.Options{RegularResync: time.Hour})
	response, err := h.Sync(context.Background(), request(3))
	fmt.Println(response.Status, response.Resync, err)
	response, err = h.Sync(context.Background(), request(9))
	fmt.Println(response.Status, response.Resync, err) // the engine's backoff says when to try again
	// Output:
	// map[ready:true] 1h0m0s <nil>
	// map[ready:false] 0s the cloud is full
}

func ExampleResult() {
	determineStatus := func(_ context.Context, _ *handler.SyncRequest, result failable.Result[Database]) any {
		if db, ok := result.Validated(); ok {
			return fmt.Sprintf("size %d: %s", db.Spec.Size, result.Outcome())
		}
		return fmt.Sprintf("%s: %v", result.Outcome(), result.Err())
	}
	refuse := func(context.Context, Database, *handler.SyncRequest) ([]any, error) {
		return nil, errors.New("no")
	}
	h := failable.Wrap(failable.Funcs(refuse, determineStatus), failable.Options{})
	response, err := h.Sync(context.Background(), request(3))
	fmt.Println(response.Status, err)
	// Output: size 3: SyncFailed no
}

// greetings is a failable.Handler that leaves nothing behind.
type greetings struct{ failable.NothingToFinalize }

func (greetings) Validate(context.Context, *handler.SyncRequest) (string, error) { return "hello", nil }

func (greetings) SyncChildren(context.Context, string, *handler.SyncRequest) ([]any, error) {
	return nil, nil
}

func (greetings) DetermineStatus(_ context.Context, _ *handler.SyncRequest, result failable.Result[string]) any {
	text, _ := result.Validated()
	return text
}

func ExampleNothingToFinalize() {
	fmt.Println(handler.Finalizes(failable.Wrap(greetings{}, failable.Options{})))
	fmt.Println(handler.Finalizes(failable.Wrap(databases{}, failable.Options{})))
	// Output:
	// false
	// true
}

func ExampleErrorBackoff() {
	backoff := failable.ErrorBackoff{Config: failable.BackoffConfig{
		InitialInterval:     time.Second,
		Multiplier:          2,
		MaxInterval:         5 * time.Second,
		RandomizationFactor: -1, // none
	}}
	req := request(3)
	for range 4 {
		fmt.Println(backoff.Next(req))
	}
	backoff.Reset(req) // it has worked
	fmt.Println(backoff.Next(req))
	// Output:
	// 1s true
	// 2s true
	// 4s true
	// 5s true
	// 1s true
}

func ExampleFixedInterval() {
	backoff := failable.ErrorBackoff{Config: failable.FixedInterval(time.Minute)}
	fmt.Println(backoff.Next(request(3)))
	fmt.Println(backoff.Next(request(3)))
	// Output:
	// 1m0s true
	// 1m0s true
}

func ExampleNeverRetry() {
	backoff := failable.ErrorBackoff{Config: failable.NeverRetry()}
	fmt.Println(backoff.Next(request(3)))
	// Output: 0s false
}

func ExampleBackoffConfig() {
	h := failable.Wrap(databases{}, failable.Options{Backoff: failable.BackoffConfig{
		MaxInterval: time.Minute,
		GiveUpAfter: 24 * time.Hour,
	}})
	response, err := h.Sync(context.Background(), request(9))
	fmt.Println(response.Resync >= 250*time.Millisecond, response.Resync <= 750*time.Millisecond, err)
	// Output: true true the cloud is full
}
