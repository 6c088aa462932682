// Package fuzz holds the fuzz tests of packages whose own tests need an API
// server, which each worker of the fuzzer would start.
package fuzz
