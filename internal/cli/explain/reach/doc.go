// Package reach asks the running process of an operator what it knows of a parent:
//
//	known := reach.Ask(ctx, restConfig, reach.Process{Program: "hello"}, reach.Question{Operator: "hello", Parent: parent})
//
// The process answers at explain.Path, beside its metrics. It is found by its Pods, and asked
// through the API server; or at a URL that the user names. That it can't be reached is no error: the
// answer says why.
//
// The package makes requests that read, changes nothing, and keeps no state. A goroutine that it starts
// ends before Ask returns.
package reach
