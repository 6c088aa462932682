// Package explain says why a parent and its children are as they are: what the operator
// would do next, what that waits for, and who has made the live objects differ. From a snapshot
// and the plan for it, Make derives a value that can be printed or sent as JSON:
//
//	planned := plan.Build(settings, plan.Input{…})
//	explanation := explain.Make(explain.Input{Settings: settings, Parent: parent, Planned: &planned, …})
//
// What only a running process knows of the parent, such as its backoff, is a Process. The
// engine of that process fills it in.
//
// Everything here is pure: no function makes a request, reads a clock, writes a log or starts
// a goroutine. The room imports catalog, plan and the leaves below them. No Explanation has
// the value of a Secret in it.
package explain
