package observe

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// A shardCollector tells, of a process that may hold shards, how many shards the operator has, and
// that there is somebody to hold them: a process without a shard has no other metrics.
type shardCollector struct {
	shards         int
	count, leading *prometheus.Desc
}

// RegisterShards registers, with reg, that the parents of an operator are divided into this many shards.
// The caller calls unregister in the end.
func RegisterShards(reg prometheus.Registerer, controller string, shards int) (unregister func(), err error) {
	of := prometheus.Labels{"controller": controller}
	c := &shardCollector{
		shards: shards,
		count:  prometheus.NewDesc("roperator_shards", "Into how many shards replicas divide the parents; without shards there is no such metric.", nil, of),
		// The sum over the shards of an operator is how many of them are held. It is 0, and not
		// missing, if none is.
		leading: prometheus.NewDesc("roperator_leader", leaderHelp, nil, prometheus.Labels{"controller": controller, "shard": ""}),
	}
	if err := reg.Register(c); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return func() { reg.Unregister(c) }, nil
}

// Describe implements prometheus.Collector.
func (c *shardCollector) Describe(to chan<- *prometheus.Desc) { to <- c.count; to <- c.leading }

// Collect implements prometheus.Collector.
func (c *shardCollector) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(c.count, prometheus.GaugeValue, float64(c.shards))
	to <- prometheus.MustNewConstMetric(c.leading, prometheus.GaugeValue, 0)
}
