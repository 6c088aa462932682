package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// gather returns the metrics of the operator, by name.
func (r *rig) gather() map[string]*dto.MetricFamily {
	r.t.Helper()
	families, err := r.runner.gatherer.Gather()
	require.NoError(r.t, err)
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
func (r *rig) value(name, labels string) int {
	r.t.Helper()
	for _, m := range r.gather()[name].GetMetric() {
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
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(copier))
		r.create("one", "v1")
		elapse(time.Second)
		require.NoError(t, r.server.Delete(k8s.ConfigMap, rigKey("one")))
		elapse(time.Second)
		r.server.Bookmark()
		elapse(20 * time.Second)
		parents := testParentType().String()
		for _, tc := range []struct {
			reason, name, labels string
			want                 int
		}{
			{"two writes and their confirmation, twice", "roperator_syncs_total", "result=success", r.passes()},
			{"nothing failed", "roperator_syncs_total", "result=error", 0},
			{"each pass", "roperator_sync_duration_seconds", "", r.passes()},
			{"each pass", "roperator_queue_wait_seconds", "", r.passes()},
			{"one call a pass", "roperator_handler_duration_seconds", "method=sync,result=success", r.passes()},
			{"never", "roperator_handler_duration_seconds", "method=finalize,result=error", 0},
			{"nothing is due", "roperator_queue_depth", "", 0},
			{"nothing runs", "roperator_syncs_running", "", 0},
			{"the default", "roperator_syncs_max", "", 16},
			{"no election", "roperator_leader", "", 1},
			{"created twice", "roperator_writes_total", "result=success,type=v1/ConfigMap,verb=create", 2},
			{"as many requests", "roperator_api_requests_total", "code=201,verb=create", 2 + r.value("roperator_events_total", "result=written")},
			{"one watch each", "roperator_api_requests_total", "code=200,verb=watch", 2},
			{"two of the child", "roperator_watch_events_total", "event=added,type=v1/ConfigMap", 2},
			{"one by hand", "roperator_watch_events_total", "event=deleted,type=v1/ConfigMap", 1},
			{"one list at the start", "roperator_lists_total", "type=v1/ConfigMap", 1},
			{"nothing failed", "roperator_watch_failures_total", "type=" + parents, 0},
			{"one each", "roperator_store_objects", "type=v1/ConfigMap", 1},
			{"one each", "roperator_store_objects", "type=" + parents, 1},
			{"as long as its JSON", "roperator_store_bytes", "type=" + parents, r.get(testParentType(), "one").Size()},
			{"since the bookmark", "roperator_watch_staleness_seconds", "type=v1/ConfigMap", 20},
		} {
			require.Equal(t, tc.want, r.value(tc.name, tc.labels), "%s{%s}: %s", tc.name, tc.labels, tc.reason)
		}
		require.GreaterOrEqual(t, r.value("roperator_event_to_write_seconds", ""), 2, "the parent came, the child went; a write may be heard of before its answer")
		r.stop()
	})
}

func TestMetrics_OfWhatGoesWrong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(copier))
		r.create("one", "v1")
		elapse(time.Second)
		r.change(k8s.ConfigMap, "one", func(o map[string]any) { o["data"] = map[string]any{"value": "by hand"} })
		elapse(time.Second)
		require.Equal(t, 1, r.value("roperator_differences_total", "type=v1/ConfigMap"))
		require.Equal(t, 1, r.value("roperator_writes_total", "result=success,type=v1/ConfigMap,verb=update"))
		require.Equal(t, 0, r.value("roperator_redundant_writes_total", "type=v1/ConfigMap"))
		r.stop()

		bytes := r.get(k8s.ConfigMap, "one").Size()
		failing := handler.Funcs{SyncFunc: copier}
		failing.SyncFunc = func(_ context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
			return nil, errors.New("no")
		}
		r = startRig(t, r.server, rigConfig(), failing)
		elapse(time.Second)
		require.Equal(t, bytes, r.value("roperator_store_bytes", "type=v1/ConfigMap"))
		require.Positive(t, r.value("roperator_syncs_total", "result=error"))
		require.Positive(t, r.value("roperator_handler_duration_seconds", "method=sync,result=error"))
		require.Equal(t, 0, r.value("roperator_handler_duration_seconds", "method=sync,result=success"))
		r.stop()
	})
}

// The table in docs/reference/metrics.md is what a run's metrics say of
// themselves.
func TestMetrics_Reference(t *testing.T) {
	var lines []string
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(copier))
		r.create("one", "v1")
		synctest.Wait()
		families := r.gather()
		r.stop()
		for _, f := range families {
			var labels []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, "`"+l.GetName()+"`")
			}
			lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s |", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp()))
		}
		descs := make(chan *prometheus.Desc, 100)
		newMetrics().Describe(descs)
		newGauges(&engine{}, nil, nil).Describe(descs)
		require.Len(t, families, len(descs), "the run has shown all")
	})
	slices.Sort(lines)
	page, err := os.ReadFile("../docs/reference/metrics.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "| metric | kind | labels | |\n|---|---|---|---|\n"+strings.Join(lines, "\n")+"\n\n", "the table shall be\n%s", strings.Join(lines, "\n"))
}
