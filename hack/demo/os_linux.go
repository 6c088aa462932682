package main

import "syscall"

// childAttributes make the kernel kill a child when the thread that started it
// ends, however it ends. That thread must live as long as the process.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
