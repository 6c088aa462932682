// Package tree prints an explanation of a parent for people: the parent, below it its children and
// what it refers to, and what its process says.
//
//	err := tree.Write(stdout, explanation, tree.Options{Width: 100, Now: time.Now()})
//
// It is pure but for what it writes, and starts no goroutine.
package tree
