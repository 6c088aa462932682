// Package observe tells the outside what an operator does: by metrics, by Events
// on its parents, and by spans.
//
//	metrics := observe.NewMetrics()
//	unregister, err := metrics.Register(registry, operator, shard, types, gauges)
//	defer unregister()
//	metrics.Passed(observe.Pass{Took: took, Waited: waited})
//
//	sink, err := observe.NewEventSink(restConfig, httpClient, operator, metrics, log)
//	defer sink.Close()
//	sink.Tell(parent, observe.Normal, observe.ReasonCreated, "created ConfigMap web")
//
//	tracing := observe.NewTracing(provider, operator) // nil without a provider
//	ctx, span := tracing.Pass(ctx, observe.MethodSync, parent, trigger, syncID)
//	span.End(err)
//
// The package takes values, never an engine or a pass, so that nothing here can
// change what an operator does. Values of Secrets must be hidden by the caller.
//
// # Goroutines and ownership
//
// NewEventSink starts one goroutine, which writes the Events; Close ends it. The
// goroutine owns the series of equal Events. Metrics and Tracing start none, and may
// be used concurrently, except that Register must be called before the engine runs.
// Gauges are read from a function that Register is given, whenever somebody reads
// the metrics.
//
// Outside of tests, Prometheus is imported nowhere else in the engine, and of
// OpenTelemetry only the provider that users set as an option. The package imports
// no other package of the engine.
package observe
