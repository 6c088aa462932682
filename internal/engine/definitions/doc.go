// Package definitions installs the CustomResourceDefinitions that belong to an operator,
// and rewrites stored objects in the version that the definition says.
//
//	r, err := definitions.New(link, operator, domain, log)
//	err = r.Install(ctx, wanted, definitions.Options{})
//	…
//	err = r.Migrate(ctx, wanted, dryRun, say)
//
// Install reads each definition once. It writes nothing if that is as wanted. Otherwise it
// writes by server-side apply, guarded by the resourceVersion that it has read, so that of
// two builds that begin at once one looks again. The digests of what builds have
// installed are in an annotation, from which an older build tells that it is one.
//
// What is refused, and what is only told of, is decided by internal/crd, without requests.
// The room imports client for the connection, and no other room. No goroutine lives here.
package definitions
