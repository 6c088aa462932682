package testkit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/textdiff"
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
	Waits  string         `json:"waits,omitempty"`
	Object map[string]any `json:"object"`
}

// Golden expects that the whole plan is as a file says, a path relative to the
// test's package. With ROPERATOR_UPDATE_GOLDEN=1 in the environment the file is
// written. It doesn't tell the values of Secrets: each has a number, equal ones the
// same, so that another value alone changes nothing in it. Nor does it have the times of
// conditions, such as lastTransitionTime.
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
			path, again, diffText(string(want), string(text)))
	}
	return p
}

func (p *Plan) golden() ([]byte, error) {
	g := goldenPlan{LetGo: p.planned.Finalized, Status: plan.Timeless(p.planned.Status)}
	if p.err != nil {
		g.Error = p.err.Error()
	}
	hide := byNumber()
	for _, a := range p.planned.Actions {
		object := a.Object
		if a.Verb == "delete" {
			object = map[string]any{"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": identity(object)}
		}
		g.Actions = append(g.Actions, goldenAction{Verb: a.Verb, Waits: a.Waits, Object: timeless(hidden(object, hide))})
	}
	return yaml.Marshal(g)
}

// timeless returns an object without the times of its conditions, which are other ones in
// every run.
func timeless(object map[string]any) map[string]any {
	out, _ := plan.Timeless(object).(map[string]any)
	return out
}

func identity(object map[string]any) map[string]any {
	key := keyOf(object)
	out := map[string]any{"name": key.Name}
	if key.Namespace != "" {
		out["namespace"] = key.Namespace
	}
	return out
}

// diffText prints what has to be taken from one text (-) and added (+) to make
// it the other, with some lines around.
func diffText(before, after string) string {
	var out []string
	for _, hunk := range textdiff.Hunks(before, after, 3) {
		if hunk.Skipped > 0 {
			out = append(out, "  …")
		}
		for _, line := range hunk.Lines {
			out = append(out, line.Sign+" "+line.Text)
		}
	}
	return strings.Join(out, "\n")
}
