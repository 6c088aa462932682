// Package scale measures what many parents cost: whole operators against an
// API server in the process, which is no limit and no other process's CPU.
//
//	make bench-scale
//
// For each size it lets an operator converge from nothing, restarts it with all
// in place, lets every parent be synced again and again, changes the spec of each,
// and changes parents one by one. SCALE_WITH names what the operator makes use of
// besides: "related" (each parent refers to settings that it shares with others,
// which are changed, too), "gates" (a child waits for others) and "roll" (children
// are updated one after the other). The costs are CPU time of the whole process, the
// API server included, except where no requests are made: restart aside its lists,
// and resync wholly.
package scale
