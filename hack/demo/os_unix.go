//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// keeperAttributes put the keeper into a session of its own, out of reach of
// the terminal's Ctrl-C and of its end.
func keeperAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// lockFile opens and locks a file; it is unlocked when nobody has it open any
// more. Without wait a lock that another process holds is an error.
func lockFile(path string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
	}
}

// running says whether there is a process with this id.
func running(pid int) bool { return syscall.Kill(pid, 0) == nil }
