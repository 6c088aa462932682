// Package scale measures what many parents cost: whole operators against an
// API server in the process, which is no limit and no other process's CPU.
//
//	make bench-scale
//
// For each size it lets an operator converge from nothing, restarts it with all
// in place, lets every parent be synced again and again, and changes the spec
// of each. The costs are CPU time of the whole process, the API server
// included, except where no requests are made: restart aside its lists, and
// resync wholly.
package scale
