// Package alerts holds docs/observability/alerts.yaml to what it is for: an
// alert fires while an operator is in the trouble that it names, and none
// fires for an operator that is well.
//
// An operator runs on an API server in the process, in a bubble in which hours
// pass in no time. Its metrics are scraped every minute, Prometheus' own parser
// reads the file as it is, and Prometheus' own engine evaluates its expressions.
//
// The tests are a module of their own so that Prometheus doesn't reach the
// library's go.mod.
package alerts
