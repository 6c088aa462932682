// Package explain has what the subcommand explain prints, on a real API server: a file in testdata for each
// situation in which somebody asks it. With -update the files are written anew:
//
//	go test ./test/explain -run TestSituations -update
package explain
