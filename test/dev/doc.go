// Package dev runs replicas of an operator, and the process of a developer that takes their
// place by run --dev, on a real API server. Its audit log says who wrote when.
package dev
