// Package view has what the window shows of running operators, as values: the overview
// with its parents and figures, one parent, and a plan. Package manager fills them in, package
// window sends them as JSON. The JSON is no public format.
//
// The room has no state, no goroutine, and makes no request.
package view
