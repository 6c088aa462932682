// Command page writes docs/reference/scenarios.md, the list of the conformance scenarios, from
// the tests of test/conformance. It needs no API server.
package main

import (
	"fmt"
	"os"
)

// The folder of the tests, and the page, as seen from the folder.
const (
	folder = "."
	file   = "../../docs/reference/scenarios.md"
)

func main() {
	if err := run(folder, file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder, file string) error {
	found, err := scenarios(folder)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(page(found)), 0o644)
}

// A topic is what the name of a test's file begins with.
type topic struct{ name, about string }

// topics are in the order of the page.
func topics() []topic {
	return []topic{
		{"basics", "A parent, its child and its end."},
		{"silence", "A settled operator makes no request, whatever the API server makes of an object."},
		{"change", "A child becomes what the handler desires."},
		{"values", "Lists, numbers and nulls in desired objects."},
		{"apply", "The strategy Apply."},
		{"recreate", "The strategy Recreate."},
		{"rejected", "Writes that the API server rejects."},
		{"input", "Responses and objects that cannot be written."},
		{"placement", "Namespaces, and the order of writes."},
		{"ownership", "Objects of other owners, adoption, fields of other managers, deletion."},
		{"finalizing", "Finalizers, and parents that leave the selector."},
		{"loops", "Conflict loops, and what is none."},
		{"secrets", "Values of Secrets."},
		{"life", "Start, end, replicas, and answers that come late or are wrong."},
		{"restart", "Restarts of the operator and of the API server."},
		{"plan", "Plans and the pause annotation."},
		{"schemas", "Schemas of custom resources."},
		{"types", "Types that come and go."},
		{"related", "Related objects."},
		{"order", "Readiness, gates, teardown and rollouts."},
		{"events", "Events."},
		{"messages", "What the operator says."},
		{"traffic", "How many requests the operator makes."},
		{"histories", "Random lives of many children."},
	}
}
