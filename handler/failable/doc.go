// Package failable splits a handler into steps that may fail, so that the
// parent's status can always tell what became of it:
//
//	parent ─ Validate ─ SyncChildren ─┐
//	            └ error ───┴ error ───┴─ Result ─ DetermineStatus
//
//	parent being deleted ─ Finalize ─────Result ─ DetermineStatus
//
// [Wrap] makes a handler.Handler of a [Handler]:
//
//	type databases struct {
//		failable.NothingToFinalize
//		api *cloud.Client
//	}
//
//	func (d databases) Validate(ctx context.Context, req *handler.SyncRequest) (Database, error) {…}
//	func (d databases) SyncChildren(ctx context.Context, db Database, req *handler.SyncRequest) ([]any, error) {…}
//	func (d databases) DetermineStatus(ctx context.Context, req *handler.SyncRequest, result failable.Result[Database]) any {…}
//
//	runner.Main(operator, failable.Wrap(databases{api: api}, failable.Options{}))
//
// # Errors
//
// An error of a step fails the pass, as an error of any handler.Handler does:
// the engine logs and counts it, records it as a Warning event on the parent,
// leaves the children as they are, and tries again with exponential backoff,
// unless the error is marked with handler.Permanent. What Wrap adds is the
// status, which is written all the same. Options.Backoff replaces the engine's
// backoff by one with other intervals, or one that gives up: then the error
// becomes a permanent one.
//
// A panic of a step goes to the engine, as from any handler.
//
// This is what handlers in roperator for Rust could be built of. Other than
// there, children survive an error (unless Options.DeleteChildrenOnError is
// set), and giving up on a Finalize that fails never releases the parent.
package failable
