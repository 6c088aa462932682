package reconcile

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/conflict"
)

// maxHistory bounds how many errors of one parent are kept.
const maxHistory = 100

// A Loop is a conflict loop that the passes over a parent were in.
type Loop struct {
	Parent types.NamespacedName // whose passes they were
	conflict.Loop
}

// A history holds the newest errors of each parent's passes, and all conflict
// loops, for tests. It is safe for concurrent use.
type history struct {
	on bool // if not, nothing is kept
	mu struct {
		sync.Mutex
		errors map[types.NamespacedName][]error // parent -> the newest, oldest first
		loops  []Loop                           // oldest first
	}
}

// add keeps an error of a parent's pass.
func (h *history) add(parent types.NamespacedName, err error) {
	if !h.on {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.errors == nil {
		h.mu.errors = map[types.NamespacedName][]error{}
	}
	errs := append(h.mu.errors[parent], err)
	if len(errs) > maxHistory {
		errs = errs[1:]
	}
	h.mu.errors[parent] = errs
}

// addLoop keeps a conflict loop.
func (h *history) addLoop(parent types.NamespacedName, found *conflict.Loop) {
	if !h.on {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.loops = append(h.mu.loops, Loop{Parent: parent, Loop: *found})
}

func (h *history) errorsOf(parent types.NamespacedName) []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.mu.errors[parent])
}

// allErrors returns the errors of all parents that have any.
func (h *history) allErrors() map[types.NamespacedName][]error {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := maps.Clone(h.mu.errors)
	for parent, errs := range out {
		out[parent] = slices.Clone(errs)
	}
	return out
}

func (h *history) allLoops() []Loop {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.mu.loops)
}
