// Package plan decides what an operator does to the children of one parent. It
// turns a handler's response into validated desired children, compares those with
// the live ones, and returns actions and the bodies of their requests. It also
// holds what is remembered of a parent from pass to pass:
//
//	memory := memories.Of(parent.UID())
//	desired, err := plan.Desire(settings, parent, response.Children, memory)
//	…
//	planned := plan.Build(settings, plan.Input{
//		Parent: parent, Desired: desired, Children: live, Memory: memory,
//	})
//	for _, action := range planned.Writes { … } // apply makes the requests
//
// A request may find out something that the plan couldn't know. The room apply
// then hands a Finding to Next, which returns the action that follows. So there
// is one place, decide, at which a verb is chosen.
//
// Everything but memory is pure: no function makes a request, reads a clock,
// writes a log or starts a goroutine. The room imports catalog, merge and the
// leaves below them. It must not import client-go, log/slog, context, nor
// any other room of the engine.
//
// An Action and a Desired are immutable once Build has returned. A ParentMemory
// belongs to the pass over that parent, of which there is one at a time, and is
// changed by its own methods alone, in conditions.go and in the files named memory. Memory, the
// set of these, has a lock and is safe for concurrent use.
package plan
