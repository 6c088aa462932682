// Package revision finds out that etcd was restored from a backup.
//
//	storage := revision.New(func(err error) { end(err) })
//	pods := storage.Of("v1", "Pod")
//	pods.See(event.ResourceVersion) // whatever the API server tells of Pods
//
//	since := pods.Newest()
//	list := listPods()                               // the newest list there is
//	err := pods.Compare(since, list.ResourceVersion) // older than since: etcd was restored
//
// After a restore, resourceVersions go back and name other states than before. So whatever
// a process remembers by a resourceVersion is void. The API server does not tell: it
// accepts a watch from a version in the future, which stays silent.
//
// A process has one Storage. Events and lists from a cache may be older than what is known,
// since API servers behind a balancer are not equally fast. Only a consistent read counts:
// a list at resourceVersion "", or the response to a write that was persisted. The caller
// asks for Newest before it sends the request.
//
// The package has no goroutines and imports nothing of this module.
package revision
