package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/roperator/roperator/internal/testing/plane"
)

// A route is the connection of a replica: to the API server itself, or to the
// layer before it.
type route struct {
	proxies       []*toxiproxy.Proxy
	direct, layer string // where they listen
	mu            struct {
		sync.Mutex
		closed int // how many have closed it
	}
}

func newRoute(name, direct, layered string) (*route, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	r := &route{}
	for _, to := range []string{direct, layered} {
		p := toxiproxy.NewProxy(server, name+" to "+to, "127.0.0.1:0", to)
		if err := p.Start(); err != nil {
			return nil, fmt.Errorf("toxiproxy: %w", err)
		}
		r.proxies = append(r.proxies, p)
	}
	r.direct, r.layer = r.proxies[0].Listen, r.proxies[1].Listen
	return r, nil
}

// close cuts every connection, and lets no new one in before everybody who has
// closed the route has opened it.
func (r *route) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed++; r.mu.closed > 1 {
		return
	}
	for _, p := range r.proxies {
		p.Stop()
	}
}

func (r *route) open(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed--; r.mu.closed > 0 {
		return nil
	}
	for _, p := range r.proxies {
		// A connection of somebody else may have the port for a moment.
		if err := plane.Until(ctx, patience, p.Start); err != nil {
			return fmt.Errorf("toxiproxy: %w", err)
		}
	}
	return nil
}

const toxicName = "toxic"

// poison makes the connections bad, until cure.
func (r *route) poison(kind, stream string, attributes map[string]any) error {
	text, err := json.Marshal(map[string]any{"name": toxicName, "type": kind, "stream": stream, "attributes": attributes})
	if err != nil {
		return err
	}
	for _, p := range r.proxies {
		if _, err := p.Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
			return fmt.Errorf("toxiproxy: %s: %w", kind, err)
		}
	}
	return nil
}

func (r *route) cure(ctx context.Context) error {
	for _, p := range r.proxies {
		if err := p.Toxics.RemoveToxic(ctx, toxicName); err != nil {
			return fmt.Errorf("toxiproxy: %w", err)
		}
	}
	return nil
}

// toxic chooses what happens to connections.
func toxic(rng *rand.Rand) (kind string, attributes map[string]any) {
	switch kind = []string{"latency", "bandwidth", "slicer", "limit_data", "reset_peer", "timeout"}[rng.IntN(6)]; kind {
	case "latency":
		return kind, map[string]any{"latency": 50 + rng.IntN(600), "jitter": rng.IntN(200)}
	case "bandwidth":
		return kind, map[string]any{"rate": 5 + rng.IntN(60)} // KB/s
	case "slicer":
		return kind, map[string]any{"average_size": 20 + rng.IntN(200), "size_variation": 10, "delay": rng.IntN(2000)} // bytes, µs
	case "limit_data":
		return kind, map[string]any{"bytes": 3000 + rng.IntN(60000)}
	case "reset_peer":
		return kind, map[string]any{"timeout": rng.IntN(1500)} // ms
	default:
		return kind, map[string]any{"timeout": rng.IntN(2) * 1000} // ms; 0: never
	}
}
