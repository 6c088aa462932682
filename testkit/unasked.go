package testkit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/reconcile"
)

// maxErrors is how many different errors of a parent are told.
const maxErrors = 3

// An unasked is what the handler failed with for one parent, without the test having asked.
type unasked struct {
	parent types.NamespacedName
	texts  []string // different ones, oldest first
	count  int      // of all errors
}

// String lists the errors.
func (u unasked) String() string {
	lines := []string{fmt.Sprintf("the handler has failed for %s, %d times:", u.parent, u.count)}
	if u.count == 1 {
		lines[0] = fmt.Sprintf("the handler has failed for %s:", u.parent)
	}
	for _, text := range u.texts[:min(len(u.texts), maxErrors)] {
		lines = append(lines, "  "+text)
	}
	if more := len(u.texts) - maxErrors; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d other errors", more))
	}
	return strings.Join(lines, "\n")
}

// unaskedErrors returns, parent by parent, what the handler of the present run has failed with
// and the test hasn't asked for.
func (k *Kit) unaskedErrors() []unasked {
	engine, err := k.engine()
	if err != nil || k.opts.AllowHandlerErrors {
		return nil
	}
	var out []unasked
	for parent, errs := range engine.AllErrors() {
		if k.asked.has(parent) {
			continue
		}
		found := unasked{parent: parent}
		for _, err := range errs {
			if _, late := errors.AsType[*lateError](err); late || !reconcile.HandlerFailed(err) {
				continue
			}
			found.count++
			if text := formatWithStack(err); !slices.Contains(found.texts, text) {
				found.texts = append(found.texts, text)
			}
		}
		if found.count > 0 {
			out = append(out, found)
		}
	}
	slices.SortFunc(out, func(a, b unasked) int { return strings.Compare(a.parent.String(), b.parent.String()) })
	return out
}

// A lateError is what a handler has returned after the end of the test's own code.
type lateError struct{ error }

// Unwrap returns what the handler has returned.
func (e *lateError) Unwrap() error { return e.error }

// noteLate returns err, as a lateError if the test's own code has ended.
func (c *calls) noteLate(err error) error {
	if err == nil || !c.over() {
		return err
	}
	return &lateError{err}
}

// failUnasked fails the test for the errors that it hasn't asked for. It is called when an
// operator has stopped, so that those of its last passes are among them, and the test can't ask
// any more.
func (k *Kit) failUnasked() {
	k.t.Helper()
	if k.t.Skipped() {
		return
	}
	for _, found := range k.unaskedErrors() {
		k.asked.add(found.parent) // it is told once
		k.t.Errorf("testkit: operator %s: %s\nIf that is meant to be, ask for it by Kit.HandlerErrors, or set KitOptions.AllowHandlerErrors.", k.config.Name, found)
	}
}

// withErrors adds to the text of a failure what the handler has failed with, which may be the
// reason.
func (k *Kit) withErrors(text string) string {
	for _, found := range k.unaskedErrors() {
		text += "\n" + found.String()
	}
	return text
}

// asked are the parents for which the test knows that the handler fails.
type asked struct {
	mu struct {
		sync.Mutex
		parents map[types.NamespacedName]bool
	}
}

func newAsked() *asked {
	a := &asked{}
	a.mu.parents = map[types.NamespacedName]bool{}
	return a
}

func (a *asked) add(parent types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.parents[parent] = true
}

func (a *asked) has(parent types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.parents[parent]
}

// failureReasons are those of the Events about errors of the handler.
func failureReasons() []string {
	return []string{observe.ReasonSyncFailed, observe.ReasonFinalizeFailed, observe.ReasonInvalidResponse}
}
