package docs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/transcript"
	"github.com/roperator/roperator/testkit"
)

// patience is how long a command may take, repetitions included: among them is
// a go build with cold caches.
const patience = 10 * time.Minute

// A command is a line of a block, and what it prints if the block says so.
type command struct {
	block  *block
	text   string
	output string
	quiet  bool // it need only succeed
}

// commands returns those of a page that are run.
func commands(p *page) ([]*command, error) {
	var out []*command
	for _, b := range p.blocks {
		if b.notRun != "" || b.lang != "sh" && b.lang != "console" {
			continue
		}
		var current *command
		for line := range strings.Lines(b.text) {
			line = strings.TrimSuffix(line, "\n")
			text, prompted := strings.CutPrefix(line, "$ ")
			switch {
			case current != nil && strings.HasSuffix(current.text, `\`):
				current.text += "\n" + line
			case b.lang == "sh" && (line == "" || strings.HasPrefix(line, "#")):
			case b.lang == "sh":
				current = &command{block: b, text: line, quiet: true}
				out = append(out, current)
			case prompted:
				current = &command{block: b, text: text}
				out = append(out, current)
			case current == nil:
				return nil, fmt.Errorf("%s: %q is the output of no command", b, line)
			default:
				current.output += line + "\n"
			}
		}
	}
	return out, nil
}

// A session is a bash that gets one command at a time.
type session struct {
	in    io.Writer
	lines chan string // closed at its end
}

const endOfOutput = "--end-of-output-"

// newSession starts a bash that ends with the test, as do its jobs.
func newSession(t *testing.T, dir string, env ...string) *session {
	t.Helper()
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	s := &session{in: in, lines: make(chan string)}
	go func() { // ends with the output: when bash and its jobs have
		defer close(s.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		overdue := time.AfterFunc(generous, func() { _ = cmd.Process.Kill(); _ = out.Close() })
		defer overdue.Stop()
		for range s.lines { // drained, so that nobody hangs on a full pipe
		}
		_ = cmd.Wait() // its code is that of the last command
	})
	_, err = io.WriteString(in, "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n")
	require.NoError(t, err)
	return s
}

// run returns what the command prints, and its exit code.
func (s *session) run(ctx context.Context, text string) (output, code string, err error) {
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null\nprintf '\\n%s%%s\\n' $?\n", text, endOfOutput); err != nil {
		return "", "", err
	}
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return output, "", fmt.Errorf("bash has ended after printing %q", output)
			}
			if code, ok := strings.CutPrefix(line, endOfOutput); ok {
				return strings.TrimSuffix(output, "\n"), code, nil
			}
			output += line + "\n"
		case <-ctx.Done():
			return output, "", fmt.Errorf("not done after printing %q: %w", output, ctx.Err())
		}
	}
}

// try runs a command, one that looks until it is right.
func (s *session) try(ctx context.Context, c *command) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		output, code, err := s.run(ctx, c.text)
		switch {
		case err != nil:
			return err
		case c.quiet && code == "0", !c.quiet && transcript.Matches(c.output, output):
			return nil
		case c.quiet || !transcript.Looks(c.text):
			return fmt.Errorf("prints, with exit code %s,\n%s\ninstead of\n%s", code, output, c.output)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("prints in the end\n%s\ninstead of\n%s", output, c.output)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// startCluster starts an API server with CRDs.
func startCluster(t *testing.T, crds []string) *testkit.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server")
	}
	cluster, err := testkit.Start(testkit.ClusterOptions{CRDPaths: crds, ControllerManager: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	return cluster
}

// TestSessions runs what the pages type, on one cluster and in the order of
// their paths: a page may go on where an earlier one has ended.
func TestSessions(t *testing.T) {
	all := pages(t)
	cluster := startCluster(t, nil) // as a reader finds it
	module := assemble(t, all)
	assets, err := filepath.Abs(filepath.Join(root, ".cache/controlplane"))
	require.NoError(t, err)
	env := []string{
		"KUBECONFIG=" + cluster.Kubeconfig(), "GOFLAGS=-mod=mod", "GOWORK=off",
		"PATH=" + strings.Join([]string{os.Getenv("KUBEBUILDER_ASSETS"), assets, os.Getenv("PATH")}, string(os.PathListSeparator)),
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		env = append(env, "KUBEBUILDER_ASSETS="+assets)
	}
	for _, p := range all {
		steps, err := commands(p)
		require.NoError(t, err)
		if strings.HasPrefix(p.path, "examples/") {
			requireTranscript(t, p, steps)
			continue
		}
		if len(steps) == 0 {
			continue
		}
		t.Run(p.path, func(t *testing.T) {
			dir := root
			for _, b := range p.blocks {
				if b.dir != "" && b.notRun == "" {
					dir = filepath.Join(module, b.dir)
				}
			}
			s := newSession(t, dir, env...)
			for _, c := range steps {
				t.Logf("%s: $ %s", c.block, c.text)
				require.NoError(t, s.try(t.Context(), c), "%s: $ %s", c.block, c.text)
			}
		})
	}
}

// requireTranscript finds that an example's test runs what its README types.
func requireTranscript(t *testing.T, p *page, steps []*command) {
	t.Helper()
	if p.path == "examples/starter/README.md" {
		return // test/starter runs it in a copy of the starter
	}
	for _, c := range steps {
		require.Equal(t, "console", c.block.lang, "%s: examples are run as console blocks", c.block)
		test, err := os.ReadFile(filepath.Join(root, filepath.Dir(p.path), "main_test.go"))
		require.NoError(t, err)
		require.Contains(t, string(test), "transcript.Run", "%s: nobody runs it", c.block)
	}
}

func TestCommands(t *testing.T) {
	p, err := parsePage("a.md", "```sh\n# first\none \\\n  two\n```\n```console\n$ three\n3\n\n4\n$ five\n```\n<!-- not run: no -->\n```sh\nsix\n```")
	require.NoError(t, err)
	found, err := commands(p)
	require.NoError(t, err)
	require.Equal(t, []*command{
		{p.blocks[0], "one \\\n  two", "", true}, {p.blocks[1], "three", "3\n\n4\n", false}, {p.blocks[1], "five", "", false},
	}, found)
	p, err = parsePage("a.md", "```console\none\n```")
	require.NoError(t, err)
	_, err = commands(p)
	require.ErrorContains(t, err, `a.md:1: "one" is the output of no command`)
}

func TestSession(t *testing.T) {
	cases := map[string]struct {
		reason  string
		command command
		want    string
	}{
		"Right":  {"What it prints is what is shown.", command{text: "echo ok 0.123s; echo a b >&2", output: "ok 4.5s\na   b\n"}, ""},
		"Any":    {"An ellipsis is any text.", command{text: "seq 9", output: "1\n…\n9\n"}, ""},
		"Wrong":  {"Another word isn't.", command{text: "echo one", output: "two\n"}, "prints, with exit code 0,\none\n"},
		"More":   {"Nor is more than that.", command{text: "echo one; echo two", output: "one\n"}, "instead of\none\n"},
		"Fails":  {"A command without output must succeed.", command{text: "(exit 3)", quiet: true}, "exit code 3"},
		"Quiet":  {"What it prints then is its own business.", command{text: "echo one", quiet: true}, ""},
		"Exits":  {"The session is there to the end.", command{text: "exit 3"}, "bash has ended"},
		"Looks":  {"It looks until it is right.", command{text: "cat file 2>/dev/null || echo done >file", output: "done\n"}, ""},
		"Stdin":  {"A command that reads doesn't get the next one.", command{text: "cat - ; echo 1", output: "1\n"}, ""},
		"InText": {"A time is any time.", command{text: "echo 2026-01-02T03:04:05Z", output: "2020-01-01T00:00:00Z\n"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := newSession(t, t.TempDir()).try(t.Context(), &tc.command)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.want, tc.reason)
			}
		})
	}
}
