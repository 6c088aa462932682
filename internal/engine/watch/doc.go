// Package watch mirrors the objects of one type, in one namespace or in all, into
// the store. It is the first stage of the engine: every change of the cluster
// enters here.
//
//	w := watch.New(watch.Config{Kind: pods, Client: c, Store: s, Log: log,
//		Metrics: metrics.Of(pods.Type), Changed: schedule, Fatal: stop})
//	go w.Run(ctx)
//	<-w.Synced() // the first complete list is in the store
//
// A Watcher is the store that a client-go Reflector writes into, so there is no
// second cache. The Reflector lists, watches, reconnects and backs off. The
// Watcher passes the objects on to the store, tells Config.Changed which parents
// they concern, and logs when a watch is lost and when it is back. After a lost
// connection, FindRestore makes one list of one object. If that shows that etcd was
// restored from a backup, the process ends.
//
// # Goroutines and ownership
//
// Run is the caller's goroutine. It and the goroutines that the Reflector starts
// in it end when the context of Run ends. Refresh lists in its caller's
// goroutine. A Watcher guards what it remembers of its watch with a mutex, and
// takes no other lock under it.
//
// The package may import catalog, client, observe, revision, schedule and store, but
// none of the packages that decide: plan, apply and reconcile. Of the cluster's objects
// it reads no more than client decodes.
package watch
