package buggy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

// A registry stands for the outside systems of this package: directory, store, bank and dns.
type registry struct {
	testkit.External
	mu     sync.Mutex        // guards all below
	owners map[string]string // by name of the entry
	opened int
}

func newRegistry() *registry { return &registry{owners: map[string]string{}} }

// Put creates an entry, or changes it.
func (r *registry) Put(ctx context.Context, name, owner string) error {
	return r.Call(ctx, "put "+name, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.owners[name] = owner
		return nil
	})
}

// Open creates an entry with a name of the registry's own.
func (r *registry) Open(ctx context.Context, owner string) (name string, err error) {
	err = r.Call(ctx, "open for "+owner, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.opened++
		name = strconv.Itoa(r.opened)
		r.owners[name] = owner
		return nil
	})
	return name, err
}

// Remove removes an entry, if it is there.
func (r *registry) Remove(ctx context.Context, name string) error {
	return r.Call(ctx, "remove "+name, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.owners, name)
		return nil
	})
}

// Delete removes an entry, which must be there.
func (r *registry) Delete(ctx context.Context, name string) error {
	return r.Call(ctx, "delete "+name, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, exists := r.owners[name]; !exists {
			return fmt.Errorf("%s: %w", name, errNotFound)
		}
		delete(r.owners, name)
		return nil
	})
}

// onePer returns a check that each parent owns one entry, and nobody else owns any.
func (r *registry) onePer(parent resource.Type) func(testkit.World) error {
	return func(w testkit.World) error {
		owned := r.owned()
		for _, p := range w.List(parent) {
			owner := p.Key().String()
			if owned[owner] != 1 {
				return fmt.Errorf("%s %s has %d entries in the registry, and not one", parent.Kind, owner, owned[owner])
			}
			delete(owned, owner)
		}
		for _, owner := range slices.Sorted(maps.Keys(owned)) {
			return fmt.Errorf("%s %s is gone, and its entry in the registry isn't", parent.Kind, owner)
		}
		return nil
	}
}

func (r *registry) owned() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]int{}
	for _, owner := range r.owners {
		out[owner]++
	}
	return out
}
