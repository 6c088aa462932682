// Package kept names the type of encode.Kept as package handler does.
package kept

import "github.com/roperator/roperator/internal/encode"

// A Child is an encode.Kept.
type Child = encode.Kept
