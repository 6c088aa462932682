// Package catalog says what an operator is about before any object is seen: how
// the API server serves the types of the parent and of the children, how objects
// of each type are compared, and the settings that no pass ever changes.
//
// A Catalog comes from the API server (Finder.Discover), or, where there is none, from
// what is known of built-in kinds and from the configuration (Offline). Settings
// add the configuration and the names that the engine writes on objects:
//
//	finder, err := catalog.NewFinder(restConfig, httpClient)
//	types, err := finder.Discover(ctx, cfg)
//	…
//	settings := catalog.NewSettings(cfg, handler, types)
//	deployments := settings.Types.Of(k8s.Deployment)
//
// The catalog also knows which rights the operator needs: as rules to print (Rules), and
// one by one, to be looked at (Settings.Rights).
//
// The room imports config, handler and resource, the leaves below them, merge
// for comparisons, shard, and client-go for discovery. It imports no other room of the
// engine, which all stand on it.
//
// The schema of a type that isn't built in may arrive late, and may change while
// the operator runs. Schemas reads it. Whoever owns the catalog (reconcile) makes
// another one of it by WithSchemas. A pass keeps the one that it began with. So it is with
// a type that comes or goes while the operator runs: Served and Gone make its Kind.
//
// A Catalog, a Kind and a Settings are immutable once they are made, so that
// every goroutine may read them without a lock. No goroutine lives here: the methods of a
// Finder return when their requests have ended, at the latest 8 seconds after they
// began. The goroutines of Schemas.Read end when it returns.
package catalog
