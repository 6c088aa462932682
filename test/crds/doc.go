// Package crds holds what is promised of CustomResourceDefinitions that belong to an
// operator, on a real API server: definitions are cluster-wide, so each test has a group of
// its own.
package crds
