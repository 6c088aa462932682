package observe

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Registry registers the metrics of a process, and serves them.
type Registry struct {
	prometheus.Registerer
	gatherer prometheus.Gatherer // nil: the metrics can't be read from here
}

// NewRegistry returns a Registry on the user's registerer. If user is nil, it makes
// a new one, with the metrics of Go and of the process in it.
func NewRegistry(user prometheus.Registerer) *Registry {
	if user == nil {
		own := prometheus.NewRegistry()
		own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		return &Registry{own, own}
	}
	gatherer, _ := user.(prometheus.Gatherer)
	return &Registry{user, gatherer}
}

// Readable returns an error if the metrics can't be read, because the user's
// registerer is no prometheus.Gatherer.
func (r *Registry) Readable() error {
	if r.gatherer != nil {
		return nil
	}
	return fmt.Errorf("runner: MetricsAddress is set, but Metrics, a %T, can't be read: use a *prometheus.Registry, or serve the metrics yourself", r.Registerer)
}

// Handler returns an HTTP handler that serves the metrics, and logs errors to log. Its
// error is that of Readable.
func (r *Registry) Handler(log *slog.Logger) (http.Handler, error) {
	if err := r.Readable(); err != nil {
		return nil, err
	}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	return promhttp.HandlerFor(r.gatherer, promhttp.HandlerOpts{ErrorLog: errorLog}), nil
}
