package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/roperator/roperator/handler"
)

func TestTracing(t *testing.T) {
	cases := map[string]struct {
		reason   string
		exporter string
		want     []string // the requests that the collector gets
		err      string
	}{
		"Default": {"Spans cost nothing where nobody asks for them.", "", nil, ""},
		"None":    {"The standard word for that.", "none", nil, ""},
		"Console": {"For a look on one's own machine.", "console", nil, ""},
		"OTLP":    {"The last spans are sent before the process ends.", "otlp", []string{"POST /v1/traces"}, ""},
		"Unknown": {"Better no operator than one that nobody can trace.", "jaeger", nil, `OTEL_TRACES_EXPORTER: "jaeger" is none of otlp, console and none`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			requests := make(chan string, 10)
			collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				requests <- r.Method + " " + r.URL.Path
			}))
			t.Setenv("OTEL_TRACES_EXPORTER", tc.exporter)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
			tracing, err := newTracing(t.Context())
			if tc.err != "" {
				require.EqualError(t, err, tc.err, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			_, span := tracing.Tracer("test").Start(t.Context(), "pass")
			require.Equal(t, tc.exporter == "console" || tc.exporter == "otlp", span.IsRecording(), tc.reason)
			span.End()
			shutdown(tracing)
			collector.Close()
			close(requests)
			var got []string
			for request := range requests {
				got = append(got, request)
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestTraced(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracing := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	var inside []trace.SpanContext
	h := traced(tracing.Tracer("test"), handler.Funcs{
		SyncFunc: func(ctx context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
			inside = append(inside, trace.SpanContextFromContext(ctx))
			return nil, errors.New("out of words")
		},
		FinalizeFunc: func(ctx context.Context, _ *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			inside = append(inside, trace.SpanContextFromContext(ctx))
			return &handler.FinalizeResponse{Finalized: true}, nil
		},
	})
	ctx, outer := tracing.Tracer("test").Start(t.Context(), "pass")
	_, err := h.Sync(ctx, request(t, world(1)))
	require.EqualError(t, err, "out of words")
	response, err := h.Finalize(ctx, request(t, world(1)))
	require.NoError(t, err)
	require.True(t, response.Finalized)

	ended := spans.Ended()
	require.Len(t, ended, 2)
	for i, name := range []string{"hello.sync", "hello.finalize"} {
		require.Equal(t, name, ended[i].Name())
		require.Equal(t, inside[i], ended[i].SpanContext(), "the handler can make spans of its own below it")
		require.Equal(t, outer.SpanContext().SpanID(), ended[i].Parent().SpanID())
		require.Contains(t, ended[i].Attributes(), attribute.String("hello", "default/world"))
	}
	require.Equal(t, "exception", ended[0].Events()[0].Name, "the error is told")
	require.Empty(t, ended[1].Events())
	require.True(t, handler.Finalizes(h), "or there is no finalizer")
}
