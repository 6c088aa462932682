package observe

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Registry is where the metrics of a process are registered, and read from.
type Registry struct {
	prometheus.Registerer
	gatherer prometheus.Gatherer // nil: they can't be read here
}

// NewRegistry returns the registry of a user, or for nil a new one, which has
// Go's and the process's metrics as well.
func NewRegistry(user prometheus.Registerer) *Registry {
	if user == nil {
		own := prometheus.NewRegistry()
		own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		return &Registry{own, own}
	}
	gatherer, _ := user.(prometheus.Gatherer)
	return &Registry{user, gatherer}
}

// Readable returns an error if the metrics can't be read from the registry.
func (r *Registry) Readable() error {
	if r.gatherer != nil {
		return nil
	}
	return fmt.Errorf("runner: MetricsAddress is set, but Metrics, a %T, can't be read: use a *prometheus.Registry, or serve the metrics yourself", r.Registerer)
}

// Handler returns what serves the metrics.
func (r *Registry) Handler(log *slog.Logger) (http.Handler, error) {
	if err := r.Readable(); err != nil {
		return nil, err
	}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	return promhttp.HandlerFor(r.gatherer, promhttp.HandlerOpts{ErrorLog: errorLog}), nil
}
