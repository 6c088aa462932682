//go:build unix && !linux

package main

import "syscall"

// childAttributes are nothing special: elsewhere than on Linux a child of a
// killed keeper has to be ended by hand.
func childAttributes() *syscall.SysProcAttr { return nil }
