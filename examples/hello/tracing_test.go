package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
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
