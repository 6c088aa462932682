// Package past judges, for tests, what an operator shows its handlers of related objects. It
// shares no code with the operator.
//
// A Record has every state that objects on an API server ever had. A Witness knows what the
// parents of one process referred to, and what they were shown. It says what can't have
// been so:
//
//	record := past.NewRecord("Secret")
//	server.SetHooks(fakeapi.Hooks{Changed: record.Note})
//	…
//	witness.Refers(parent, refs)                 // before the process looks them up
//	wrong := witness.Shown(parent, refs, shown)  // when the handler is called
//
// An operator may be late: its watches are. So it may show an object in any state that the
// object had since the process began. An object that it doesn't show must have been absent,
// or without the labels that the reference selects, at some moment since the process first
// had the reference: an operator looks before it says that there is nothing. And time never
// goes back: what a parent is shown by a reference isn't older than what it was shown by it
// before.
//
// Where several references of a parent are to one object, each may have a watch of its own,
// and the newest state of all is shown. There, that time never goes back isn't judged. Nor is
// it after a restore of a backup, of which one watch learns before another.
package past
