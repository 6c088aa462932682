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
// A leader that can't do its work gives the lease away (Lease.GiveAway).
//
// A process may take the lease over from the one that leads (Lease.TakeOver), which ends
// its passes and hands the lease to it without a gap: see takeover.go. An Observer looks at a
// Lease, and takes no part in the election.
//
// # Shards
//
// Members divide the parents of an operator into shards, and share them evenly:
//
//	members, err := lead.NewMembers(config, 8, restConfig, newHTTPClient, log)
//	err = members.Run(ctx, fatal, func(ctx, passes context.Context, shard int, held interface{ Held() bool }) error {
//		// Works on one shard, as the work of Run does on all parents.
//	})
//
// There are three sorts of Leases, each with one job:
//
//   - The fleet's Lease is the one that an undivided operator elects its leader by. The
//     members hold it together, under the name of their number of shards, and each of them
//     renews it. So whoever divides the parents otherwise, or not at all, waits for all of
//     them, and they for it. See fleet.go, and members_end.go for who releases it.
//   - A member's Lease says that the process lives, so that the others count it
//     in: see members_leases.go and members_balance.go.
//   - A shard's Lease says who works on the shard. It is elected as an operator's is,
//     but only a member that has a use for it tries: see members_shards.go.
//
// A process may write for a shard while it holds the shard's Lease and the fleet's.
//
// # Goroutines and ownership
//
// Run starts two goroutines. One is the elector, which releases the lease when the
// work has ended. The other one watches over the time left, and ends the contexts of
// the work when the lease is lost. Both end before Run returns. A Lease guards its
// state with one mutex, under which it makes no request.
//
// Members.Run lists the Leases and decides in its own goroutine. It starts the keeper, which
// renews the member's Lease and the fleet's until all work has ended; one goroutine for each
// term, which ends the work if the fleet's Lease isn't renewed in time; and one for each
// shard, which calls Run. All of them end before Members.Run returns.
//
// The package imports client-go, config, internal/apierror and internal/process, and of the
// engine shard alone, for what numbers of shards there can be.
package lead
