// Package lead elects one leader among the replicas of an operator, by a Lease in
// the cluster, so that only one process writes.
//
//	config := lead.Config{}.WithDefaults("op")
//	lease, err := lead.NewLease(config, restConfig, httpClient, log)
//	err = lead.Run(ctx, fatal, lease, func(ctx, passes context.Context) error {
//		// Leads: begin passes until ctx ends, and cut them short when passes ends.
//	})
//
// client-go's leader election decides who leads. A Lease is the lock that the
// elector uses. It notes when each renewal began, and answers Held: this process may
// write until RenewDeadline has passed since then. Another replica takes over no
// sooner than after LeaseDuration, which is longer. The room client asks Held before
// each write.
//
// A process may take the lease over from the one that leads (Lease.TakeOver), which ends
// its passes and hands the lease to it without a gap: see takeover.go. An Observer looks at a
// Lease, and takes no part in the election.
//
// # Goroutines and ownership
//
// Run starts two goroutines. One is the elector, which releases the lease when the
// work has ended. The other one watches over the time left, and ends the contexts of
// the work when the lease is lost. Both end before Run returns. A Lease guards its
// state with one mutex, under which it makes no request.
//
// The package imports client-go, config, internal/apierror and internal/process. It imports
// no other package of the engine.
package lead
