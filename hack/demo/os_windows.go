package main

import (
	"errors"
	"os"
	"syscall"
)

var errWindows = errors.New("the demo needs Linux or macOS")

func childAttributes() *syscall.SysProcAttr { return nil }

func keeperAttributes() *syscall.SysProcAttr { return nil }

func lockFile(string, bool) (*os.File, error) { return nil, errWindows }

func running(int) bool { return false }
