package runner

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracing makes the spans of an operator: one for each pass, below it one for
// the handler and one for each write. A nil *tracing makes none, and costs
// nothing.
type tracing struct {
	tracer     trace.Tracer
	controller string
}

// newTracing returns nil if there is no provider.
func newTracing(provider trace.TracerProvider, controller string) *tracing {
	if provider == nil {
		return nil
	}
	return &tracing{provider.Tracer("github.com/roperator/roperator/runner"), controller}
}

// A span is nil where none is made.
type span struct{ trace.Span }

// pass begins the span of a pass.
func (t *tracing) pass(ctx context.Context, p *pass, d due) (context.Context, *span) {
	if t == nil {
		return ctx, nil
	}
	parent := p.parent
	name := methodSync
	if parent.IsDeleting() {
		name = methodFinalize
	}
	return t.begin(ctx, name,
		attribute.String("controller", t.controller),
		attribute.String("kind", parent.Type().String()),
		attribute.String("namespace", parent.Namespace()),
		attribute.String("name", parent.Name()),
		attribute.String("uid", string(parent.UID())),
		attribute.String("trigger", string(d.Trigger)),
		attribute.String("syncID", p.id()),
	)
}

// handler begins the span of a call of the handler, which is given the context.
func (t *tracing) handler(ctx context.Context, method string) (context.Context, *span) {
	if t == nil {
		return ctx, nil
	}
	return t.begin(ctx, "handler "+method)
}

// write begins the span of a write.
func (t *tracing) write(ctx context.Context, verb string, ref objectRef) (context.Context, *span) {
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

func (t *tracing) begin(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, *span) {
	ctx, s := t.tracer.Start(ctx, name, trace.WithAttributes(attributes...))
	return ctx, &span{s}
}

// end ends a span. Errors of the engine hold no value of a Secret.
func (s *span) end(err error) {
	if s == nil {
		return
	}
	result := "success"
	if err != nil {
		result = "error"
		s.RecordError(err)
		s.SetStatus(codes.Error, err.Error())
	}
	s.SetAttributes(attribute.String("result", result))
	s.End()
}
