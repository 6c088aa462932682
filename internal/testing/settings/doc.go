// Package settings makes catalog.Settings for tests of the rooms above catalog. No
// API server is needed, since all types come from catalog.Offline:
//
//	s := settings.For(config.Child{Type: k8s.Pod, Strategy: config.Recreate})
//
// Only tests import the package. It keeps no state and starts no goroutine. Of the
// engine it imports catalog only.
package settings
