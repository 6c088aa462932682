package observe

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Tracing makes the spans of an operator: one for each pass, below it one for
// the handler and one for each write. A nil *tracing makes none, and costs
// nothing.
type Tracing struct {
	tracer     trace.Tracer
	controller string
}

// NewTracing returns nil if there is no provider.
func NewTracing(provider trace.TracerProvider, controller string) *Tracing {
	if provider == nil {
		return nil
	}
	return &Tracing{provider.Tracer("github.com/roperator/roperator/runner"), controller}
}

// A Span is nil where none is made.
type Span struct{ inner trace.Span }

// Pass begins the span of a pass over a parent, which is named after the method
// of the handler that the pass is to call.
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

// Handler begins the span of a call of the handler, which is given the context.
func (t *Tracing) Handler(ctx context.Context, method string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	return t.begin(ctx, "handler "+method)
}

// Write begins the span of a write.
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

// End ends a span. Errors of the engine hold no value of a Secret.
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
