// Package terminal knows what a terminal can show: how wide it is, whether it wants colours, and
// which characters it would take for a command:
//
//	width, colours := terminal.Width(stdout), terminal.Colours(stdout)
//	fmt.Fprintln(stdout, terminal.Printable(text))
//
// It reads the environment and asks the terminal, changes nothing, and starts no goroutine.
package terminal
