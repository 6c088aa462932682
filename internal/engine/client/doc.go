// Package client sends an operator's requests to the API server and decodes the
// answers.
//
//	link, err := client.Connect(restConfig, log) // one for the process
//	link = link.Under(lease)                     // writes need the lease from here on
//	httpClient := link.As(operator, metrics)
//	c, err := client.New(link, httpClient, operator, metrics, log)
//	live, err := c.Get(ctx, kind, key) // a *resource.Resource
//
// A Link is the connection that all operators of a process share: the transport,
// the rate limit and the lease. It follows the files that the configuration names
// for certificates and tokens (credential_files.go).
//
// A Client belongs to one operator, and is the field manager of the operator's
// writes. It sends and receives JSON. An object becomes a resource.Resource, which
// holds the JSON and decodes no more of it than is asked for. A list and a watch
// stream are cut into objects by code of this package (wire.go, wire_frames.go), and
// passed to client-go's Reflector as WireObjects. Those of the first lists also carry
// what managedFields say of the operator's own fields (held_fields.go), until
// DropHeldFields.
//
// Four things never leave this package: a write without the lease, the body of a
// request in client-go's log (klog_redact.go), and a warning (warnings.go) or
// an error (failures.go) of the API server that may quote a Secret.
//
// Of the parents, lists and watches may pass on those of one shard alone (division.go).
//
// Review asks which rights this process has. It belongs to no operator.
//
// # Goroutines and ownership
//
// Review starts a goroutine for each right, eight of which run at a time, and returns
// after they have ended. client-go starts one for each watch, which ends when the watch
// is stopped, or when its context or stream ends. A Client guards the set of warnings
// that it has logged with a mutex. Clients and Links may be used concurrently.
//
// It may import catalog, observe, shard and the shared vocabulary. It must not import the
// store (its benchmarks do, to measure both), nor lead: LeaseHolder is all that it
// needs of the lease.
package client
