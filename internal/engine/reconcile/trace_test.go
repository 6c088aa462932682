package reconcile_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// spans is a TracerProvider that keeps the spans that have ended, as "parent/
// name result", with the error.
type spans struct {
	noop.TracerProvider
	mu    sync.Mutex
	ended []*testSpan
}

type testTracer struct {
	noop.Tracer
	to *spans
}

type testSpan struct {
	noop.Span
	to     *spans
	name   string
	above  *testSpan
	values map[string]string
	err    string
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer { return testTracer{to: s} }

func (t testTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	above, _ := trace.SpanFromContext(ctx).(*testSpan)
	s := &testSpan{to: t.to, name: name, above: above, values: map[string]string{}}
	config := trace.NewSpanStartConfig(opts...)
	s.SetAttributes(config.Attributes()...)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *testSpan) SetAttributes(list ...attribute.KeyValue) {
	for _, a := range list {
		s.values[string(a.Key)] = a.Value.AsString()
	}
}

func (s *testSpan) RecordError(err error, _ ...trace.EventOption) { s.err = err.Error() }

func (s *testSpan) End(...trace.SpanEndOption) {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	s.to.ended = append(s.to.ended, s)
}

func (s *testSpan) String() string {
	text := s.name + " " + s.values["result"]
	if s.above != nil {
		text = s.above.name + "/" + text
	}
	return strings.TrimSpace(text + " " + s.err)
}

func (s *spans) texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, each := range s.ended {
		out = append(out, each.String())
	}
	return out
}

func TestTraces(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		provider := &spans{}
		h := handler.Funcs{
			SyncFunc: func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				_, inner := trace.SpanFromContext(ctx).(*testSpan)
				require.True(t, inner, "the handler's context carries its span")
				if value, _ := req.Parent.Field("spec", "value"); value == "bad" {
					panic("no")
				}
				return rig.Copier(ctx, req)
			},
			FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				return nil, handler.Permanent(errors.New("never"))
			},
		}
		server := rig.Server()
		rig.CreateParent(t, server, "one", "v1")
		r := rig.StartWith(t, server, rig.Config(), h, manager.Options{RESTConfig: server.RESTConfig(), TracerProvider: provider})
		rig.Elapse(time.Second)
		require.Equal(t, []string{
			"sync/patch finalizers Parent success", "sync/handler sync success", "sync/create ConfigMap success", "sync success",
			"sync/handler sync success", "sync/update status Parent success", "sync success",
		}, provider.texts()[:7])
		for _, s := range provider.ended {
			switch {
			case s.above == nil:
				require.Equal(t, []string{"op", "ns", "one", "uid-1"}, []string{s.values["controller"], s.values["namespace"], s.values["name"], s.values["uid"]})
				require.NotEmpty(t, s.values["trigger"])
				require.Contains(t, r.Logs.String(), "syncID="+s.values["syncID"])
			case s.name == "create ConfigMap":
				require.Equal(t, []string{"create", k8s.ConfigMap.String(), "ns", "one"}, []string{s.values["verb"], s.values["type"], s.values["namespace"], s.values["name"]})
			}
		}
		r.SetSpec("one", "bad")
		require.Contains(t, provider.texts(), "sync/handler sync error handler: Sync: panic: no")
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
		rig.Elapse(time.Second)
		require.Contains(t, provider.texts(), "finalize/handler finalize error handler: Finalize: never")
		require.Contains(t, provider.texts(), "finalize error handler: Finalize: never")
		r.Stop()
	})
}

// Every line of a pass has its syncID, the parent and the operator; a settled
// operator logs nothing.
func TestLogs_OfAPass(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		ids := map[string]string{}
		lines := 0
		for line := range strings.Lines(r.Logs.String()) {
			if !strings.Contains(line, " name=") {
				continue
			}
			lines++
			id := regexp.MustCompile(`controller=op syncID=([0-9a-f]{8}) namespace=ns name=one `).FindStringSubmatch(line)
			require.NotNil(t, id, line)
			require.Empty(t, ids[id[1]], "one line per pass")
			ids[id[1]] = line
		}
		require.Equal(t, r.Passes(), lines)
		require.Contains(t, r.Logs.String(), `did="[create ConfigMap ns/one]"`)
		before := r.Logs.String()
		rig.Elapse(time.Hour)
		require.Equal(t, before, r.Logs.String())
		r.Stop()
	})
}
