package testkit

import (
	"testing"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
)

// A plan of a parent that is being deleted says what goes now: the last type, then the one
// before it, and at last what is retained.
func TestSync_Teardown(t *testing.T) {
	t.Parallel()
	cfg := sites()
	cfg.Teardown = config.TeardownOrdered
	cfg.Children[0].Retain = true
	h := handler.SyncFunc(siteHandler)
	going := func() map[string]any { return deleted(site(map[string]any{"text": "hello"})) }
	index, web, key := page("index", "hello"), pod("nginx"), secret("hunter2")
	Sync(t, cfg, h, going(), index, web, key).WantDelete(key)
	Sync(t, cfg, h, going(), index, web).WantDelete(web)
	Sync(t, cfg, h, going(), index).WantUpdate(index).WantDelete(site(nil))
	Sync(t, cfg, h, going()).WantDelete(site(nil))
	cfg.Teardown = config.TeardownGC
	Sync(t, cfg, h, going(), index, web, key).WantUpdate(index).WantDelete(site(nil))
	cfg.Children[0].Retain = false
	Sync(t, cfg, h, going(), index, web, key).WantNothing()
}
