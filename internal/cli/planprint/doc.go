// Package planprint prints plans: as text for people, as JSON for programs, as Markdown for
// the comment of a pull request, and as commands for a workflow of GitHub.
//
//	report := planprint.Report{Plans: []planprint.Plan{{Operator: "shops", Parent: "Shop", Changes: changes}}}
//	err := planprint.Text(os.Stdout, report)
//
// What it prints comes from objects that anybody may have written, so each output escapes
// what its reader would take for more than text: a terminal for a command, GitHub for
// Markdown or a workflow command. The package writes to the io.Writer that it is given,
// makes no request, and starts no goroutine.
package planprint
