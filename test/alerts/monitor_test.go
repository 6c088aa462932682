package alerts

import (
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
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
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	rules := loadRules(t)
	out := firings{}
	stored := memory{}
	start := scrapes[0].at
	active := map[string]map[uint64]time.Time{} // alert -> hash of its labels -> since when
	for _, s := range scrapes {
		stored.add(s)
		for _, rule := range rules {
			query, err := engine.NewInstantQuery(t.Context(), stored, nil, rule.Expr, s.at)
			require.NoError(t, err, rule.Alert)
			vector, err := query.Exec(t.Context()).Vector()
			require.NoError(t, err, rule.Alert)
			since := map[uint64]time.Time{}
			fires := false
			for _, sample := range vector {
				hash := sample.Metric.Hash()
				since[hash] = s.at
				if at, ok := active[rule.Alert][hash]; ok {
					since[hash] = at
				}
				fires = fires || s.at.Sub(since[hash]) >= time.Duration(rule.For)
			}
			query.Close()
			active[rule.Alert] = since
			if fires {
				out[rule.Alert] = append(out[rule.Alert], s.at.Sub(start))
			}
		}
	}
	return out
}

// loadRules loads the shipped file, which Prometheus' parser finds valid, templates included.
func loadRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
	require.Empty(t, errs)
	require.Len(t, groups.Groups, 1)
	rules := groups.Groups[0].Rules
	require.NotEmpty(t, rules)
	for _, rule := range rules {
		require.NotEmpty(t, rule.Alert)
		require.Zero(t, rule.KeepFiringFor, "%s: judge doesn't know it", rule.Alert)
	}
	return rules
}

// memory is what Prometheus has stored, by the labels of a series. Prometheus' own storage and rule manager would
// bring 280 packages along, among them the clients of three clouds.
type memory map[string]*promql.Series

// add appends a scrape, with the labels that Prometheus gives to a target.
func (m memory) add(s scrape) {
	for _, sample := range s.samples {
		builder := labels.NewBuilder(labels.FromStrings("job", "operators", "instance", "operator:8080"))
		for name, value := range sample.Metric {
			builder.Set(string(name), string(value))
		}
		named := builder.Labels()
		series := m[named.String()]
		if series == nil {
			series = &promql.Series{Metric: named}
			m[named.String()] = series
		}
		series.Floats = append(series.Floats, promql.FPoint{T: int64(sample.Timestamp), F: float64(sample.Value)})
	}
}

func (m memory) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var found []storage.Series
		for _, key := range slices.Sorted(maps.Keys(m)) {
			differs := func(matcher *labels.Matcher) bool { return !matcher.Matches(m[key].Metric.Get(matcher.Name)) }
			if !slices.ContainsFunc(matchers, differs) {
				found = append(found, promql.NewStorageSeries(*m[key]))
			}
		}
		return &selected{SeriesSet: storage.EmptySeriesSet(), left: found}
	}}, nil
}

// selected are the series that a query reads: without errors and warnings, as the empty set is.
type selected struct {
	storage.SeriesSet
	at   storage.Series
	left []storage.Series
}

func (s *selected) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *selected) At() storage.Series { return s.at }

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
