package shards

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

func resourceOf(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

// People create, edit and delete parents. No name is used twice, so that a name tells the UID.
type people struct {
	t       *testing.T
	parents dynamic.ResourceInterface
	dice    *rand.Rand
	living  []string     // in no order; those that are being deleted aren't among them
	made    int          // parents so far
	edits   atomic.Int64 // changes of any kind so far
	mu      struct {
		sync.Mutex
		uids map[string]types.UID // of all parents that there ever were
	}
}

func newPeople(t *testing.T, parents dynamic.ResourceInterface) *people {
	p := &people{t: t, parents: parents, dice: rand.New(rand.NewPCG(1, 2))}
	p.mu.uids = map[string]types.UID{}
	return p
}

// create creates another parent.
func (p *people) create(ctx context.Context) error {
	name := fmt.Sprint("p", p.made)
	p.made++
	made, err := p.parents.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": parentType().APIVersion, "kind": parentType().Kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{"value": 0},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	p.living = append(p.living, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.uids[name] = made.GetUID()
	return nil
}

// act does one thing: mostly it edits a parent, now and then it replaces one by another.
//
// Only a parent that has the finalizer is deleted. Else an API server may delete a parent at the
// very moment at which it gets the finalizer: it doesn't look for finalizers again. The children
// would be the garbage collector's, of which there is none here.
func (p *people) act(ctx context.Context) error {
	n := p.edits.Add(1)
	i := p.dice.IntN(len(p.living))
	now, err := p.parents.Patch(ctx, p.living[i], types.MergePatchType, fmt.Appendf(nil, `{"spec":{"value":%d}}`, n), metav1.PatchOptions{})
	if err != nil || p.dice.IntN(20) > 0 || !slices.Contains(now.GetFinalizers(), finalizer) {
		return err
	}
	if err := p.parents.Delete(ctx, p.living[i], metav1.DeleteOptions{}); err != nil {
		return err
	}
	p.living = slices.Delete(p.living, i, i+1)
	return p.create(ctx)
}

// work has people act so many times a second until stop is called.
func (p *people) work(rate int) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends when stop is called
		defer close(ended)
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			// Requests aren't cut short: of a parent that was created the UID must be known.
			if err := p.act(context.Background()); err != nil {
				p.t.Errorf("people: %v", err)
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}

// uids returns the UIDs of all parents that there ever were.
func (p *people) uids() map[string]types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.mu.uids)
}

// populate creates parents.
func (p *people) populate(n int) {
	p.t.Helper()
	for range n {
		require.NoError(p.t, p.create(p.t.Context()))
	}
}
