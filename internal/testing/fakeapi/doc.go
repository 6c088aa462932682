// Package fakeapi is a small Kubernetes API server in the process, for tests.
// It is an http.RoundTripper, so real client-go code talks to it without a
// socket, also inside a testing/synctest bubble:
//
//	server := fakeapi.New(fakeapi.Custom(parent, "parents"), fakeapi.ConfigMaps())
//	err := runner.Run(ctx, cfg, h, runner.Options{RESTConfig: server.RESTConfig()})
//
// What it does it does as kube-apiserver does it: discovery of group versions,
// get, list, pages (with 410 after a compaction), watch (WatchList, bookmarks,
// selectors, 410 after a compaction), create, update, JSON and merge patches,
// delete with preconditions and in the foreground, dry runs, resourceVersions
// and conflicts, writes that change nothing, generations, finalizers, the
// status subresource, validation of names, reviews of the client's own rights, types
// that are no longer served.
//
// It has no admission but that of Hooks.Admit, no defaults, no OpenAPI, no garbage
// collector but CollectGarbage, no server-side apply (415), no field selectors but
// by name and namespace (400), and doesn't check that a namespace exists. Its JSON patches follow
// RFC 6902: a replace of a field that isn't there fails (422), where
// kube-apiserver, with an older version of the library, adds the field.
package fakeapi
