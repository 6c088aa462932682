package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/roperator/roperator/test/bench/app"
	"github.com/roperator/roperator/test/bench/measure"
)

// An echo is a watch event of a ConfigMap or a parent.
type echo struct {
	name string
	at   int64 // in ns since 1970
}

// single changes one parent after the other, each when all has been said of
// the one before.
func (b *bench) single(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	children, statuses := make(chan echo, 16), make(chan echo, 16)
	failed := make(chan error, 2)
	events := func(path string, to chan<- echo, of func(line []byte) string) {
		err := measure.Events(ctx, b.world.rest, path, func(line []byte) bool {
			at := time.Now().UnixNano()
			if !measure.IsEvent(line, "MODIFIED") {
				return true // what is there already
			}
			select {
			case to <- echo{name: of(line), at: at}:
				return true
			case <-ctx.Done():
				return false
			}
		})
		if err != nil {
			failed <- err
		}
	}
	go events(configMapsPath, children, measure.NameOf) // both end with ctx
	go events(parentsPath, statuses, settledName)
	if err := b.process.get(ctx, "/singles", new([]measure.Single)); err != nil { // forget earlier ones
		return err
	}
	if _, err := b.process.rest(ctx); err != nil { // until the watches are there, too
		return err
	}
	from := time.Now()
	seen := make([]int64, b.opts.singles)
	for i := range seen {
		parent := i % b.world.parents
		if err := b.world.change(ctx, parent, fmt.Sprintf("single %d", i)); err != nil {
			return err
		}
		for want := len(app.Suffixes()) + 1; want > 0; {
			select {
			case child := <-children:
				want--
				if seen[i] == 0 {
					seen[i] = child.at
				}
			case status := <-statuses:
				if status.name == parentName(parent) {
					want--
				}
			case err := <-failed:
				return err
			case <-time.After(patience):
				return errors.New(parentName(parent) + ": no answer to a change")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	wall := time.Since(from)
	var singles []measure.Single
	if err := b.process.get(ctx, "/singles", &singles); err != nil {
		return err
	}
	if len(singles) < len(seen) {
		return fmt.Errorf("%d changes, but %d were answered", len(seen), len(singles))
	}
	for i := range seen {
		name := parentName(i % b.world.parents)
		for len(singles) > 0 && !strings.HasPrefix(singles[0].Object, name) {
			singles = singles[1:] // the second child, if more bytes had come meanwhile
		}
		if len(singles) == 0 {
			return fmt.Errorf("%s: its change wasn't answered", name)
		}
		b.result.Left = append(b.result.Left, time.Duration(singles[0].Left-singles[0].Arrived))
		b.result.Seen = append(b.result.Seen, time.Duration(seen[i]-singles[0].Arrived))
		singles = singles[1:]
	}
	return b.end(ctx, "single", wall)
}

// settledName returns the name of a parent whose status tells of its spec.
func settledName(line []byte) string {
	name, generation, status := parentOf(line)
	if status.ObservedGeneration != generation {
		return ""
	}
	return name
}
