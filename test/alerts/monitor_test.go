package alerts

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"
)

const (
	rulesFile = "../../docs/observability/alerts.yaml"
	// interval is how often metrics are scraped and rules evaluated, which is
	// Prometheus' default for both.
	interval = time.Minute
)

// A scrape is what an operator's metrics said at a time.
type scrape struct {
	at      time.Time
	samples model.Vector
}

// scrapeOf reads the metrics as a scrape of /metrics would.
func scrapeOf(t *testing.T, metrics prometheus.Gatherer) scrape {
	t.Helper()
	families, err := metrics.Gather()
	require.NoError(t, err)
	now := time.Now()
	samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(now.UnixNano())}, families...)
	require.NoError(t, err)
	return scrape{at: now, samples: samples}
}

// firings says for each alert that fired when it did, in time since the first
// scrape.
type firings map[string][]time.Duration

// judge evaluates the alerts over the scrapes of one operator.
func judge(t *testing.T, scrapes []scrape) firings {
	t.Helper()
	storage := teststorage.New(t)
	group := loadRules(t, storage)
	out := firings{}
	start := scrapes[0].at
	for _, s := range scrapes {
		store(t, storage, s)
		group.Eval(t.Context(), s.at)
		for _, rule := range group.AlertingRules() {
			require.NoError(t, rule.LastError(), rule.Name())
			if rule.State() == rules.StateFiring {
				out[rule.Name()] = append(out[rule.Name()], s.at.Sub(start))
			}
		}
	}
	return out
}

// loadRules loads the shipped file as Prometheus does.
func loadRules(t *testing.T, storage *teststorage.TestStorage) *rules.Group {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, storage), Appendable: storage, Queryable: storage, Context: t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, // there is nobody to be told
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, rulesFile)
	require.Empty(t, errs)
	require.Len(t, groups, 1)
	for _, group := range groups {
		require.NotEmpty(t, group.AlertingRules())
		return group
	}
	return nil
}

// store appends a scrape, with the labels that Prometheus gives to a target.
func store(t *testing.T, storage *teststorage.TestStorage, s scrape) {
	t.Helper()
	appender := storage.Appender(t.Context())
	for _, sample := range s.samples {
		named := labels.NewBuilder(labels.FromStrings("job", "operators", "instance", "operator:8080"))
		for name, value := range sample.Metric {
			named.Set(string(name), string(value))
		}
		_, err := appender.Append(0, named.Labels(), int64(sample.Timestamp), float64(sample.Value))
		require.NoError(t, err)
	}
	require.NoError(t, appender.Commit())
}

// only requires that no other alert than these has fired.
func (f firings) only(t *testing.T, alerts ...string) {
	t.Helper()
	for alert, when := range f {
		require.True(t, slices.Contains(alerts, alert), "%s fired at %s", alert, when)
	}
}

// span returns when an alert fired first and last. It must have fired at each
// evaluation between.
func (f firings) span(t *testing.T, alert string) (first, last time.Duration) {
	t.Helper()
	when := f[alert]
	require.NotEmpty(t, when, "%s never fired", alert)
	first, last = when[0], when[len(when)-1]
	require.Len(t, when, int((last-first)/interval)+1, "%s fired with interruptions: %s", alert, when)
	return first, last
}
