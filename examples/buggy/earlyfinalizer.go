package buggy

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
)

// A directory knows the addresses of people.
type directory interface {
	// Put creates an entry, or changes it.
	Put(ctx context.Context, name, owner string) error
	// Remove removes an entry. One that isn't there is no error.
	Remove(ctx context.Context, name string) error
}

var mailboxOperator = config.Operator{Name: "mailboxes", Parent: kind("Mailbox")}

// mailboxes is a handler that keeps an entry in the directory for each Mailbox.
//
// The bug: finalize gives up when the directory doesn't answer, lest the Mailbox can't be deleted.
// The Mailbox is released all the same, and nobody is left who would remove its entry. Return the
// error: the finalizer stays, and Finalize is called again until it has succeeded.
type mailboxes struct {
	directory directory
	log       *slog.Logger
}

func (m mailboxes) handler() handler.Handler {
	return handler.Funcs{SyncFunc: m.sync, FinalizeFunc: m.finalize}
}

func (m mailboxes) sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	name := req.Parent.Key().String()
	if !handler.IsPlan(ctx) {
		if err := m.directory.Put(ctx, name, name); err != nil {
			return nil, fmt.Errorf("directory: %w", err)
		}
	}
	return &handler.SyncResponse{Status: map[string]any{"entry": name}}, nil
}

func (m mailboxes) finalize(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	name := req.Parent.Key().String()
	if err := m.directory.Remove(ctx, name); err != nil {
		m.log.WarnContext(ctx, "entry not removed", "entry", name, "error", err)
	}
	return &handler.FinalizeResponse{Finalized: true}, nil
}
