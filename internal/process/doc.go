// Package process reads what the surroundings of an operator's process say: the
// machine's name, the namespace of the Pod if the process runs in one, and the files
// with its credentials. Only this package, handler/recorder, and internal/cli with what is
// below it import os, so that the rest of the library does the same wherever it runs:
//
//	identity := process.Hostname()
//	namespace := cmp.Or(process.PodNamespace(), "default")
//
// The package keeps no state. Each call asks the system anew. It starts no
// goroutine, and goroutines may call it concurrently. It imports the standard
// library only.
package process
