package window

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/view"
)

// A discarder is a client that takes everything.
type discarder struct{ bytes int }

func (*discarder) Header() http.Header              { return http.Header{} }
func (*discarder) WriteHeader(int)                  {}
func (d *discarder) Write(p []byte) (int, error)    { d.bytes += len(p); return len(p), nil }
func (*discarder) FlushError() error                { return nil }
func (*discarder) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkOverview is of one look at 10,000 parents, of which 10 have changed since the one before, and
// of telling one client; and of telling a new client of all.
func BenchmarkOverview(b *testing.B) {
	const parents, changes = 10_000, 10
	even := many(parents)
	odd := slices.Clone(even)
	for i := range changes {
		odd[i*parents/changes].Reason = "has changed"
	}
	source := newSource()
	w := New(source, Options{Loopback: true, Log: slog.New(slog.DiscardHandler)})
	defer w.Close()
	for name, anew := range map[string]bool{"Difference": false, "All": true} {
		b.Run(fmt.Sprintf("%s/parents=%d/changes=%d", name, parents, changes), func(b *testing.B) {
			client := &discarder{}
			o := &overviewStream{stream: w.stream(newAnswer(client)), operators: []string{"sites"}, operator: "sites"}
			states := [][]view.Parent{even, odd}
			b.ReportAllocs()
			turn := 0
			for b.Loop() {
				source.run("sites", states[turn%2]...)
				turn++
				if anew {
					o.begun = false
				}
				seen, ok := w.look("sites")
				require.True(b, ok)
				require.NoError(b, o.tell(seen))
			}
			b.ReportMetric(float64(client.bytes)/float64(b.N), "sent-B/op")
		})
	}
}
