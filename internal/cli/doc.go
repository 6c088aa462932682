// Package cli is the command line of an operator's program: its flags and the
// subcommands run, plan, manifests and release-finalizers. What manifests prints is
// made by package manifests, since it needs no API server; for the others a Program is
// given functions, so that this package doesn't depend on how operators run:
//
//	p := &cli.Program{Operators: operators, Run: run, Plan: plan, Release: release}
//	p.Main() // reads os.Args, and ends the process
//
// It imports package client to find an API server, manifests,
// and of package plan the changes that it prints. It has no state.
// Program.Main starts one goroutine, which lets a second signal end the process at once. The subcommand run writes its log
// through package logbuffer, whose goroutine ends with the subcommand.
package cli
