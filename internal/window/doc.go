// Package window serves a page on which people look at running operators: what each
// parent's state is and why, what the last passes did, and what a plan would change. The
// page is read only: every request is a GET, and none changes the cluster.
//
//	page := window.New(source, window.Options{Loopback: true, Log: log})
//	http.Serve(listener, page)
//
// # What is served
//
//	/                    the page, which has no data in it
//	/assets/NAME         its style and scripts
//	/window/overview     a stream of the parents and figures of an operator
//	/window/parent       a stream of one parent
//	/window/plan         a stream of what one pass over every parent would change
//	/window/recording    a file that testkit.Replay takes
//
// The query names the operator (operator=NAME; empty: the first) and, of the second and the fourth, the parent
// (namespace=NAMESPACE, empty if the type has none, and name=NAME).
//
// # Streams
//
// A stream is of text/event-stream, and each of its events has one line of JSON. In a stream
// of the overview, they are:
//
//	begin     {"operators": [NAME…], "operator": NAME, "running": BOOL}
//	parents   {"all": BOOL, "set": [[namespace, name, state, reason, since, children, lastPass]…], "gone": [[namespace, name]…]}
//	figures   view.Figures
//
// "all" says that parents which were told of before are forgotten. Many parents come in
// several events, of which only the first is of all. Times are in RFC 3339, "" if there is none. An
// operator that doesn't run any more is told of by another begin, and so is one that runs again or was begun anew: all its
// parents are told of anew.
// In a stream of one parent:
//
//	begin        {"operator": NAME}
//	family       view.Family
//	unknown      {}: the operator knows no parent of this name
//	explanation  explain.Explanation
//	problem      {"error": TEXT}: there is no explanation now
//
// In a stream of a plan, which ends after the last of them:
//
//	begin     {"operator": NAME}
//	progress  {"done": N, "parents": N}
//	parent    view.Planned, of a parent that would change or fail
//	end       {"parents": N, "changes": N, "errors": N}
//	problem   {"error": TEXT}: there is no plan, or no complete one
//
// # Bounds
//
// A stream holds no queue: it is written what is so when its client is ready for more, and ends if
// the client takes nothing for a while. Streams, plans and recordings are bounded in number; one more is
// answered 503. All streams of one operator's overview share one look at it each second. With no stream
// open, nothing is looked at and no goroutine runs.
//
// # Who may look
//
// On a loopback address everybody on the machine may, but no other site's script: requests whose Host isn't a
// loopback name are refused, as are those that a browser says come from another site. Elsewhere
// Options.Protect stands before everything but the page itself and its assets, which hold no data.
package window
