package settings

import (
	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/testing/sample"
)

// For returns the settings of an operator with these child types. The operator is
// called op, and its parents have the type sample.ParentType. For panics if the
// declaration is invalid, which is a mistake in the test.
func For(children ...config.Child) *catalog.Settings {
	cfg := defaults.Apply(config.Operator{Name: "op", Parent: sample.ParentType(), Children: children})
	types, err := catalog.Offline(cfg)
	if err != nil {
		panic(err) //nolint:forbidigo // tests alone call For, and declare the children themselves
	}
	return catalog.NewSettings(cfg, handler.SyncFunc(nil), types)
}
