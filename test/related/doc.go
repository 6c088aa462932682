// Package related measures what related objects cost, on a real API server: an operator
// whose parents each refer to one Secret, of which they make a copy, another Secret.
//
//	make bench-related
//
// Memory: the operator's heap among very many Secrets of 4 kB that nobody refers to, beside
// its heap where there are none, with as many parents as have a watch each and with more.
//
// Latency: from the change of a Secret to the update of the copy that it leads to, beside that
// from somebody's change of the copy to the update that reverts it. Both are measured in turn,
// so that whatever else the machine does is the same for both. The time from the request to
// the event is the API server's.
package related
