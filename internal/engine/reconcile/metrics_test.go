package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// gather returns the metrics of the operator, by name.
func gather(r *rig.Rig) map[string]*dto.MetricFamily {
	r.T.Helper()
	families, err := r.Registry.Gather()
	require.NoError(r.T, err)
	out := map[string]*dto.MetricFamily{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "roperator_") {
			out[f.GetName()] = f
		}
	}
	return out
}

// value returns the value of the metric (of a histogram, how often something
// was observed) with these labels: "type=v1/ConfigMap,verb=create".
func value(r *rig.Rig, name, labels string) int {
	r.T.Helper()
	for _, m := range gather(r)[name].GetMetric() {
		var held []string
		for _, l := range m.GetLabel() {
			if l.GetName() != "controller" {
				held = append(held, l.GetName()+"="+l.GetValue())
			}
		}
		if strings.Join(held, ",") != labels {
			continue
		}
		switch {
		case m.Counter != nil:
			return int(m.GetCounter().GetValue())
		case m.Gauge != nil:
			return int(m.GetGauge().GetValue())
		}
		return int(m.GetHistogram().GetSampleCount())
	}
	return -1
}

func TestMetrics_OfARun(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		require.NoError(t, r.Server.Delete(k8s.ConfigMap, rig.Key("one")))
		rig.Elapse(time.Second)
		r.Server.Bookmark()
		rig.Elapse(20 * time.Second)
		parents := sample.ParentType().String()
		for _, tc := range []struct {
			reason, name, labels string
			want                 int
		}{
			{"two writes and their confirmation, twice", "roperator_syncs_total", "result=success", r.Passes()},
			{"nothing failed", "roperator_syncs_total", "result=error", 0},
			{"each pass", "roperator_sync_duration_seconds", "", r.Passes()},
			{"each pass", "roperator_queue_wait_seconds", "", r.Passes()},
			{"one call a pass", "roperator_handler_duration_seconds", "method=sync,result=success", r.Passes()},
			{"never", "roperator_handler_duration_seconds", "method=finalize,result=error", 0},
			{"nothing is due", "roperator_queue_depth", "", 0},
			{"nothing runs", "roperator_syncs_running", "", 0},
			{"the default", "roperator_syncs_max", "", 16},
			{"no election", "roperator_leader", "", 1},
			{"created twice", "roperator_writes_total", "result=success,type=v1/ConfigMap,verb=create", 2},
			{"as many requests", "roperator_api_requests_total", "code=201,verb=create", 2 + value(r, "roperator_events_total", "result=written")},
			{"one watch each", "roperator_api_requests_total", "code=200,verb=watch", 2},
			{"two of the child", "roperator_watch_events_total", "event=added,type=v1/ConfigMap", 2},
			{"one by hand", "roperator_watch_events_total", "event=deleted,type=v1/ConfigMap", 1},
			{"one list at the start", "roperator_lists_total", "type=v1/ConfigMap", 1},
			{"nothing failed", "roperator_watch_failures_total", "type=" + parents, 0},
			{"one each", "roperator_store_objects", "type=v1/ConfigMap", 1},
			{"one each", "roperator_store_objects", "type=" + parents, 1},
			{"as long as its JSON", "roperator_store_bytes", "type=" + parents, r.Get(sample.ParentType(), "one").Size()},
			{"since the bookmark", "roperator_watch_staleness_seconds", "type=v1/ConfigMap", 20},
		} {
			require.Equal(t, tc.want, value(r, tc.name, tc.labels), "%s{%s}: %s", tc.name, tc.labels, tc.reason)
		}
		require.GreaterOrEqual(t, value(r, "roperator_event_to_write_seconds", ""), 2, "the parent came, the child went; a write may be heard of before its answer")
		r.Stop()
	})
}

func TestMetrics_OfWhatGoesWrong(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		r.Change(k8s.ConfigMap, "one", func(o map[string]any) { o["data"] = map[string]any{"value": "by hand"} })
		rig.Elapse(time.Second)
		require.Equal(t, 1, value(r, "roperator_differences_total", "type=v1/ConfigMap"))
		require.Equal(t, 1, value(r, "roperator_writes_total", "result=success,type=v1/ConfigMap,verb=update"))
		require.Equal(t, 0, value(r, "roperator_redundant_writes_total", "type=v1/ConfigMap"))
		r.Stop()

		bytes := r.Get(k8s.ConfigMap, "one").Size()
		failing := handler.Funcs{SyncFunc: rig.Copier}
		failing.SyncFunc = func(_ context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
			return nil, errors.New("no")
		}
		r = rig.Start(t, r.Server, rig.Config(), failing)
		rig.Elapse(time.Second)
		require.Equal(t, bytes, value(r, "roperator_store_bytes", "type=v1/ConfigMap"))
		require.Positive(t, value(r, "roperator_syncs_total", "result=error"))
		require.Positive(t, value(r, "roperator_handler_duration_seconds", "method=sync,result=error"))
		require.Equal(t, 0, value(r, "roperator_handler_duration_seconds", "method=sync,result=success"))
		r.Stop()
	})
}

// The table in docs/reference/metrics.md is what a run's metrics say of
// themselves.
func TestMetrics_Reference(t *testing.T) {
	var lines []string
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		r := rig.StartWith(t, server, relating(), handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: server.RESTConfig(), ParentMetrics: 1})
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		families := gather(r)
		r.Stop()
		// Replicas that share the parents have one more.
		shards := prometheus.NewRegistry()
		_, err := observe.RegisterShards(shards, "op", 2)
		require.NoError(t, err)
		told, err := shards.Gather()
		require.NoError(t, err)
		all := slices.Collect(maps.Values(families))
		for _, f := range told {
			if f.GetName() == "roperator_shards" {
				all = append(all, f)
			}
		}
		for _, f := range all {
			var labels []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, "`"+l.GetName()+"`")
			}
			lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s |", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp()))
		}
		descs := make(chan *prometheus.Desc, 100)
		m := observe.NewMetrics()
		m.OfParents(1)
		_, err = m.Register(prometheus.NewRegistry(), "op", "", nil, func() observe.Gauges { return observe.Gauges{} })
		require.NoError(t, err)
		m.Describe(descs)
		require.Len(t, families, len(descs), "the run has shown all")
	})
	slices.Sort(lines)
	page, err := os.ReadFile("../../../docs/reference/metrics.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "| metric | kind | labels | |\n|---|---|---|---|\n"+strings.Join(lines, "\n")+"\n\n", "the table shall be\n%s", strings.Join(lines, "\n"))
}
