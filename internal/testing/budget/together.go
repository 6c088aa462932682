package budget

import (
	"flag"
	"strconv"
)

// WaitTogether lets n parallel tests of a package run at once, unless -parallel says how many. It is for
// packages whose tests mostly wait for an API server and for processes: Go runs as many as there are cores.
// TestMain calls it. It parses the flags.
func WaitTogether(n int) error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(n))
}
