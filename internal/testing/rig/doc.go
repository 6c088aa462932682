// Package rig runs operators against an API server in the process, for the tests
// of the engine's rooms. Every goroutine belongs to a testing/synctest bubble, in
// which hours pass at once, so that a test says exactly when something happens:
//
//	rig.Bubble(t, func(t *testing.T) {
//		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(rig.Copier))
//		r.Create("one", "v1")
//		rig.Elapse(time.Minute)
//		require.Equal(t, []string{"create ConfigMap ns/one", "update status Parent ns/one"}, r.Server.Writes())
//		r.Stop()
//	})
//
// All objects are in the namespace "ns". The operator is wired by package manager
// as an operator of package runner is. Only tests import this package.
package rig
