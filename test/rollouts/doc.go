// Package rollouts tests what package readiness says of objects that Kubernetes' own
// controllers and a node produce, at each step of their life.
package rollouts
