// Package dryrun marks the contexts of handler calls that belong to a pass in which
// nothing is written. The engine marks them, handler.IsPlan reads the mark.
package dryrun

import "context"

// markKey is the key of the mark in a context.
type markKey struct{}

// Mark returns a context that is marked.
func Mark(ctx context.Context) context.Context { return context.WithValue(ctx, markKey{}, true) }

// Marked says whether a context is marked, or derived from one that is.
func Marked(ctx context.Context) bool { return ctx.Value(markKey{}) != nil }
