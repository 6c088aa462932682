package runner

import (
	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
)

// Main is the whole main function of an operator: it reads the command line,
// runs the operator until SIGTERM or SIGINT, and exits with code 0 then, 1 on
// an error, 2 on bad flags. A second signal ends the process at once. The
// first argument may be a subcommand: run (the default), plan, explain, manifests,
// release-finalizers, migrate-storage or uninstall; --help explains them. The exit
// codes of plan are its own.
//
// The log goes to the standard error, and so do client-go's and those of the
// packages log and slog, unless they were given another writer or handler. If nobody
// reads it, lines are dropped instead of holding up the operator.
//
// An operator that needs more than its configuration and its handler, such as flags of
// its own or another operator beside it, is a Program.
func Main(cfg config.Operator, h handler.Handler) {
	Program{Operators: []Spec{{cfg, h}}}.Main()
}
