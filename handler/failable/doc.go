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
// After an error of a step the children stay as they are, the status is
// written, a Warning event on the parent names the error, and the parent is
// tried again with exponential backoff: that of this package, per parent, since
// to the engine the pass has succeeded. So the metrics and the log of the
// engine don't count it as a failure. An error marked with handler.Permanent
// isn't retried before the parent or a child changes. A panic and a status that
// can't be encoded go to the engine, as from any handler.
//
// This is what handlers in roperator for Rust could be built of. Other than
// there, children survive an error (unless Options.DeleteChildrenOnError is
// set), and giving up on a Finalize that fails never releases the parent.
package failable
