package settings

import (
	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/testing/sample"
)

// For are those of an operator with these child types, as an API
// server would serve them.
func For(children ...config.Child) *catalog.Settings {
	cfg := defaults.Apply(config.Operator{Name: "op", Parent: sample.ParentType(), Children: children})
	types, err := catalog.Offline(cfg)
	if err != nil {
		panic(err) // a mistake in the test
	}
	return catalog.NewSettings(cfg, handler.SyncFunc(nil), types)
}
