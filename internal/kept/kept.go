// Package kept holds what handler.Keep returns, which handlers pass on and
// only the engine opens.
package kept

import "github.com/roperator/roperator/resource"

// A Child is an observed child that shall stay exactly as it is.
type Child struct{ Resource *resource.Resource }
