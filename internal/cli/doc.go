// Package cli is the command line of an operator's program: its flags and its
// subcommands. What manifests prints is made by package manifests, since it needs no API
// server; for the others a Program is given functions, so that this package doesn't depend
// on how operators run:
//
//	p := &cli.Program{Operators: operators, Run: run, Plan: plan, …}
//	p.Main() // reads os.Args, and ends the process
//
// It imports package client to find an API server, and the engine's other rooms only for
// values: what the flags say, and what is printed. What a subcommand prints is made by the
// packages below this one. It has no state.
//
// Program.Main starts one goroutine, which lets a second signal end the process at once.
// The subcommand run writes its log through package logbuffer, whose goroutine ends with
// the subcommand. A question on the terminal has a goroutine, which ends with the answer
// or with the process.
package cli
