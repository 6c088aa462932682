package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// spans is a TracerProvider that keeps, as text, everything that spans are
// given.
type spans struct {
	noop.TracerProvider

	mu   sync.Mutex
	text strings.Builder
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer { return spanTracer{to: s} }

func (s *spans) note(args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(&s.text, args...)
}

func (s *spans) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

type spanTracer struct {
	noop.Tracer

	to *spans
}

func (t spanTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	cfg := trace.NewSpanStartConfig(opts...)
	t.to.note("start", name, cfg.Attributes())
	s := spanOf{to: t.to}
	return trace.ContextWithSpan(ctx, s), s
}

type spanOf struct {
	noop.Span

	to *spans
}

func (s spanOf) IsRecording() bool                         { return true }
func (s spanOf) SetAttributes(attrs ...attribute.KeyValue) { s.to.note("attributes", attrs) }
func (s spanOf) SetStatus(code codes.Code, text string)    { s.to.note("status", code, text) }
func (s spanOf) SetName(name string)                       { s.to.note("name", name) }
func (s spanOf) RecordError(err error, opts ...trace.EventOption) {
	cfg := trace.NewEventConfig(opts...)
	s.to.note("error", err, cfg.Attributes())
}

func (s spanOf) AddEvent(name string, opts ...trace.EventOption) {
	cfg := trace.NewEventConfig(opts...)
	s.to.note("event", name, cfg.Attributes())
}
