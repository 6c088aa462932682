// Package relate knows what each parent refers to: objects that aren't its children, and
// that its handler looks at. It says what there is of them, and whether all of it is known.
//
// A reference becomes a Query: an object by its name, the objects that a label selector
// matches, or all of a type, in one namespace or in all. The queries are the keys of a
// reverse index, from an object to the parents that refer to it.
//
// Watches come and go with the queries. Up to Config.MostWatches queries of one type in one
// namespace have a watch each, which delivers nothing else. Beyond that one watch delivers
// every object of the namespace, and of those that no parent refers to nothing is held. Beyond as
// many namespaces of one type one watch delivers those of all, where that is allowed. A
// query that begins while such a watch runs is looked up by a request of its own, very many
// by one list.
//
// The package may read by the client, and run watchers. It never writes, and knows nothing
// of passes: it calls Config.Changed with the parents that are due. Run owns all of its
// goroutines. All state is behind one lock.
package relate
