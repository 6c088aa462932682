// Package buggy holds small operators, each with one bug that many operators have had. All of them
// work when nothing goes wrong, as far as a look at the cluster tells, and most would pass a test
// that creates a parent and waits for its children. Read them to know the bugs; copy nothing.
//
// What testkit.Storm says of each is in the tests, and so are handlers without the bug, of which it
// says nothing.
package buggy

import "github.com/roperator/roperator/resource"

// kind returns the type of one of this package's parents.
func kind(name string) resource.Type {
	return resource.Type{APIVersion: "buggy.example.com/v1", Kind: name}
}
