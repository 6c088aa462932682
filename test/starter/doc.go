// Package starter tests examples/starter as a user gets it: it publishes this
// repository on a module proxy in a folder, copies the starter from there by the
// command of its README, and builds, tests and runs the copy.
//
// The starter's go.mod names a released version of the library. Within the repository
// it is built with hack/starter/go.work, which puts the working tree in its place. Its
// go.sum lacks the library's sums, which are known only once it is released: the test
// adds them to what it publishes, as a release does.
//
// When the starter's dependencies change, STARTER_TIDY=1 go test . writes its go.mod
// and go.sum anew.
package starter
