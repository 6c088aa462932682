// Package transcript types the terminal sessions that READMEs show into a real
// shell and compares what it answers, so that they stay true.
//
// A session is what stands between ```console and ```; several in one file are
// one session:
//
//	$ kubectl get hello world
//	NAME    REPLICAS   AGE
//	world   2          4s
//
// A command is the rest of a line after "$ ", and of the next line too where it
// ends in a backslash; what follows is its output, standard error included. An
// ellipsis (…) stands for any text. How columns are padded, ages and durations,
// timestamps, how often an Event was repeated, the hashes in the names of Pods,
// and from which namespace newer kubectls say they delete don't count.
//
// Operators act in their own time, so a command that only looks (it begins with
// kubectl get, describe, events or logs, or with cat, grep or tail) is repeated
// until its output is right.
package transcript
