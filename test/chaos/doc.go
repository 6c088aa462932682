// Package chaos lets an operator work while everything around it fails, on a
// real etcd and kube-apiserver, and checks afterwards that nothing was lost,
// duplicated or leaked.
//
// Three replicas with leader election, processes of their own, keep parents
// with three children each, while others change, delete and recreate parents,
// delete and change children, strip labels and add finalizers. Meanwhile
// connections are slow, cut, reset and truncated (toxiproxy, a proxy for each
// replica), requests are refused, delayed or answered with an error though they
// took effect (an HTTP proxy), kube-apiserver and etcd are killed, paused and
// compacted, etcd is restored from a backup, and replicas are killed or stand still
// for a while, the leader also for longer than its lease.
//
// When the faults have stopped, the checker asks the API server itself and
// reads its audit log: the cluster is as the handler wants it; no orphan and no
// duplicate is there; no foreign object was touched; every parent that had the
// operator's finalizer was finalized before it went; no replica wrote without
// the lease; and then nobody writes any more. What a restore has taken back tells
// nothing of finalizers, and who held the lease before may learn of it a little later.
//
//	make chaos               # 5 minutes
//	make chaos SEED=7 MINUTES=1
//
// The seed decides which faults and changes are made, in which order; how they
// meet is up to the machine. The tests are a module of their own so that
// toxiproxy doesn't reach the library's go.mod.
package chaos
