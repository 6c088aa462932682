package client

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// bodyVerbosity is the least verbosity at which client-go logs the bodies of
// requests and answers, with the values of Secrets in them.
const bodyVerbosity = 8

// WithoutBodies returns a context with which client-go logs no bodies, whatever the
// verbosity of its logger. All other messages are logged as before.
func WithoutBodies(ctx context.Context) context.Context {
	logger := klog.FromContext(ctx)
	if !logger.V(bodyVerbosity).Enabled() {
		return ctx
	}
	return klog.NewContext(ctx, logger.WithSink(bodilessSink{logger.GetSink()}))
}

// A bodilessSink is a LogSink that drops messages of bodyVerbosity and above.
type bodilessSink struct{ logr.LogSink }

func (s bodilessSink) Enabled(level int) bool {
	return level < bodyVerbosity && s.LogSink.Enabled(level)
}

func (s bodilessSink) WithValues(keysAndValues ...any) logr.LogSink {
	return bodilessSink{s.LogSink.WithValues(keysAndValues...)}
}

func (s bodilessSink) WithName(name string) logr.LogSink {
	return bodilessSink{s.LogSink.WithName(name)}
}
