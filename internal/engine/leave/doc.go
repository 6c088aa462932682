// Package leave takes an operator out of a cluster: its parents are deleted, or released
// to nobody, and its children go with them, or stay.
//
//	survey, err := leave.Look(ctx, operators)                // reads only
//	err = leave.Prepare(ctx, operators, survey, how, tell)   // while nobody else writes
//	left, err := leave.Delete(ctx, operators, survey, how, running, tell)
//
// Look finds what there is. Prepare writes what must not be undone by an operator that
// works meanwhile, so the caller holds the lease: it lets go of children that are to
// stay, and of parents that are to stay. Delete deletes parents, and waits until they and
// their children are gone, while the operator in the cluster finalizes them. Each of them may be
// interrupted, and repeated: what is done is found to be done.
//
// # Goroutines and ownership
//
// The package starts no goroutine and keeps no state: what one step knows is handed to the next
// one. It imports the rooms catalog, client, lead for the words about a lease, and plan, whose patches it sends. Package manager
// connects the operators, and holds the lease.
package leave
