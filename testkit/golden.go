package testkit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// goldenVariable says that golden files are to be written, not compared.
const goldenVariable = "ROPERATOR_UPDATE_GOLDEN"

// A goldenPlan is a Plan as a golden file.
type goldenPlan struct {
	Error   string         `json:"error,omitempty"`
	Actions []goldenAction `json:"actions,omitempty"`
	LetGo   bool           `json:"letGo,omitempty"`
	Status  any            `json:"status,omitempty"`
}

type goldenAction struct {
	Verb   string         `json:"verb"`
	Object map[string]any `json:"object"`
}

// Golden expects that the whole plan is as a file says, a path relative to the
// test's package. With ROPERATOR_UPDATE_GOLDEN=1 in the environment the file is
// written. Values of Secrets are hashes in it.
func (p *Plan) Golden(path string) *Plan {
	p.t.Helper()
	text, err := p.golden()
	if err != nil {
		p.t.Fatalf("testkit: golden: %v", err)
	}
	p.expectAll()
	if os.Getenv(goldenVariable) == "1" {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			p.t.Fatalf("testkit: golden: %v", err)
		}
		return p
	}
	want, err := os.ReadFile(path)
	again := fmt.Sprintf("%s=1 go test -run '^%s$' .", goldenVariable, p.t.Name())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.t.Fatalf("testkit: golden: %s doesn't exist; to write it: %s", path, again)
	case err != nil:
		p.t.Fatalf("testkit: golden: %v", err)
	case string(want) != string(text):
		p.t.Errorf("testkit: golden: the plan isn't as %s has it (-); if it is as it should be (+): %s\n%s",
			path, again, diffLines(lines(want), lines(text)))
	}
	return p
}

func (p *Plan) golden() ([]byte, error) {
	g := goldenPlan{LetGo: p.planned.Finalized, Status: p.planned.Status}
	if p.err != nil {
		g.Error = p.err.Error()
	}
	for _, a := range p.planned.Actions {
		object := a.Object
		if a.Verb == "delete" {
			object = map[string]any{"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": identity(object)}
		}
		g.Actions = append(g.Actions, goldenAction{Verb: a.Verb, Object: hashed(object, "")})
	}
	return yaml.Marshal(g)
}

func identity(object map[string]any) map[string]any {
	key := keyOf(object)
	out := map[string]any{"name": key.Name}
	if key.Namespace != "" {
		out["namespace"] = key.Namespace
	}
	return out
}

func lines(text []byte) []string { return strings.SplitAfter(string(text), "\n") }

const (
	diffContext  = 3       // unchanged lines that are shown around others
	maxDiffCells = 1 << 24 // what the comparison of two files may take
)

// diffLines prints what has to be taken from one text (-) and added (+) to make
// it the other, with some lines around.
func diffLines(before, after []string) string {
	if (len(before)+1)*(len(after)+1) > maxDiffCells {
		return "(too long to be compared)"
	}
	// common[i][j] is how many lines before[i:] and after[j:] have in common.
	common := make([][]int, len(before)+1)
	for i := range common {
		common[i] = make([]int, len(after)+1)
	}
	for i, b := range slices.Backward(before) {
		for j, a := range slices.Backward(after) {
			if b == a {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	var changed []bool
	add := func(mark, line string) {
		out = append(out, mark+strings.TrimSuffix(line, "\n"))
		changed = append(changed, mark != "  ")
	}
	for i, j := 0, 0; i < len(before) || j < len(after); {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			add("  ", before[i])
			i, j = i+1, j+1
		case j == len(after) || i < len(before) && common[i+1][j] >= common[i][j+1]:
			add("- ", before[i])
			i++
		default:
			add("+ ", after[j])
			j++
		}
	}
	return strings.Join(around(out, changed), "\n")
}

// around leaves out lines that are far from any that changed.
func around(all []string, changed []bool) []string {
	var out []string
	skipping := false
	for i, line := range all {
		from, to := max(0, i-diffContext), min(len(all), i+diffContext+1)
		if slices.Contains(changed[from:to], true) {
			out, skipping = append(out, line), false
		} else if !skipping {
			out, skipping = append(out, "  …"), true
		}
	}
	return out
}
