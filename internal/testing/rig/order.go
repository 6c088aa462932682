package rig

import (
	"context"
	"testing"
	"time"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/order"
)

// Orders plays a test twice, each time in a bubble of its own: responses to writes arrive before their
// watch events, and after them. The backoffs are not jittered.
func Orders(t *testing.T, test func(t *testing.T, start Starter)) {
	t.Helper()
	for _, o := range []order.Order{order.ResponseFirst, order.EventFirst} {
		t.Run(string(o), func(t *testing.T) {
			Bubble(t, func(t *testing.T) {
				test(t, func(server *fakeapi.Server, cfg config.Operator, h handler.Handler) *Rig {
					rc := server.RESTConfig()
					rc.Transport = &order.Link{Order: o, Under: server, Sleep: sleep}
					return StartWith(t, server, cfg, h, manager.Options{RESTConfig: rc, Jitter: func() float64 { return 0 }})
				})
				Elapse(time.Second) // what is under way comes to its end
			})
		})
	}
}

// A Starter is Start in the order of a test of Orders.
type Starter func(server *fakeapi.Server, cfg config.Operator, h handler.Handler) *Rig

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
