package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newTracing returns the provider of what OTEL_TRACES_EXPORTER asks for, by
// OpenTelemetry's names: "otlp" sends the spans to the collector that further
// OTEL_ variables name, "console" prints them, "none" or nothing drops them.
// The caller must call shutdown.
func newTracing(ctx context.Context) (*sdktrace.TracerProvider, error) {
	var exporter sdktrace.SpanExporter
	var err error
	switch name := os.Getenv("OTEL_TRACES_EXPORTER"); name {
	case "", "none":
		return sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())), nil
	case "console":
		exporter, err = stdouttrace.New()
	case "otlp":
		exporter, err = otlptracehttp.New(ctx)
	default:
		err = fmt.Errorf("%q is none of otlp, console and none", name)
	}
	if err != nil {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER: %w", err)
	}
	return sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", operator.Name))),
	), nil
}

// shutdown sends the spans that haven't been sent yet. A collector that is down
// is no reason to fail, nor to wait for long.
func shutdown(tracing *sdktrace.TracerProvider) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := tracing.Shutdown(ctx); err != nil {
		slog.Warn("spans are lost", "error", err)
	}
}
