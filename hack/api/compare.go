package main

import (
	"slices"
	"strings"
)

// changes are the differences between two listings.
type changes struct {
	incompatible, compatible []string
}

// compare says what became of a listing. What is gone or is another is
// incompatible, and so is a method that an interface has not had, since others
// implement it; whatever else is new is compatible, as programs name the fields
// of the structs that they make.
func compare(before, now []string) changes {
	var c changes
	for _, line := range before {
		if !slices.Contains(now, line) {
			c.incompatible = append(c.incompatible, "- "+line)
		}
	}
	for _, line := range now {
		switch owner, _, isMethod := strings.Cut(line, " interface, "); {
		case slices.Contains(before, line):
		case isMethod && slices.Contains(before, owner+" interface"):
			c.incompatible = append(c.incompatible, "+ "+line)
		default:
			c.compatible = append(c.compatible, "+ "+line)
		}
	}
	return c
}
