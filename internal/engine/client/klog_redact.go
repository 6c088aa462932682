package client

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// bodyVerbosity is from which on client-go logs what is sent and received, and
// the values of Secrets with it.
const bodyVerbosity = 8

// withoutBodies returns a context with which a request's body and answer are
// logged at no verbosity. Up to there the logger is the one that it was.
func withoutBodies(ctx context.Context) context.Context {
	logger := klog.FromContext(ctx)
	if !logger.V(bodyVerbosity).Enabled() {
		return ctx
	}
	return klog.NewContext(ctx, logger.WithSink(bodilessSink{logger.GetSink()}))
}

// A bodilessSink is a LogSink that stays below bodyVerbosity.
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
