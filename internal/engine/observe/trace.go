package observe

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Tracing makes the spans of an operator: one for each pass, and below it one for
// the call of the handler and one for each write. Its methods may be called
// concurrently. A nil *Tracing makes no spans.
type Tracing struct {
	tracer     trace.Tracer
	controller string
}

// NewTracing returns the Tracing of an operator, nil if provider is nil.
func NewTracing(provider trace.TracerProvider, controller string) *Tracing {
	if provider == nil {
		return nil
	}
	return &Tracing{provider.Tracer("github.com/roperator/roperator/runner"), controller}
}

// A Span is one span. It is nil if no spans are made; End may be called then, too.
type Span struct{ inner trace.Span }

// Pass begins the span of a pass over a parent, and returns a context with it. The
// span is named after the handler's method that the pass is to call.
func (t *Tracing) Pass(ctx context.Context, method string, parent *resource.Resource, trigger, syncID string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	return t.begin(ctx, method,
		attribute.String("controller", t.controller),
		attribute.String("kind", parent.Type().String()),
		attribute.String("namespace", parent.Namespace()),
		attribute.String("name", parent.Name()),
		attribute.String("uid", string(parent.UID())),
		attribute.String("trigger", trigger),
		attribute.String("syncID", syncID),
	)
}

// Handler begins the span of a call of the handler. The handler gets the context
// that Handler returns.
func (t *Tracing) Handler(ctx context.Context, method string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	return t.begin(ctx, "handler "+method)
}

// Write begins the span of a write of an object.
func (t *Tracing) Write(ctx context.Context, verb string, ref object.Ref) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	return t.begin(ctx, verb+" "+ref.Type.Kind,
		attribute.String("verb", verb),
		attribute.String("type", ref.Type.String()),
		attribute.String("namespace", ref.Key.Namespace),
		attribute.String("name", ref.Key.Name),
	)
}

func (t *Tracing) begin(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, *Span) {
	ctx, s := t.tracer.Start(ctx, name, trace.WithAttributes(attributes...))
	return ctx, &Span{s}
}

// End ends a span with the result of its work. The text of err becomes a part of
// the span, so it must hold no value of a Secret.
func (s *Span) End(err error) {
	if s == nil {
		return
	}
	result := "success"
	if err != nil {
		result = "error"
		s.inner.RecordError(err)
		s.inner.SetStatus(codes.Error, err.Error())
	}
	s.inner.SetAttributes(attribute.String("result", result))
	s.inner.End()
}
