package transcript

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	prompt   = "$ "
	interval = 100 * time.Millisecond // between two tries of a command that looks
)

// Options say what to run and where.
type Options struct {
	// Readme is the path of the file with the session.
	Readme string
	// Files are paths of files that the session finds in its working
	// directory, which is otherwise empty and removed in the end.
	Files []string
	// Bin are folders of programs, looked through before PATH.
	Bin []string
	// Env are further variables, "NAME=value".
	Env []string
	// Timeout bounds each command, repetitions included; 0 means 2 minutes.
	Timeout time.Duration
	// Log, if set, is told each command before it is run.
	Log func(command string)
}

// Run runs the session and returns an error that names the first command whose
// output differs. What the session has left running in the background gets
// SIGTERM, and has ended when Run returns.
func Run(ctx context.Context, opts Options) (err error) {
	data, err := os.ReadFile(opts.Readme)
	if err != nil {
		return fmt.Errorf("transcript: %w", err)
	}
	steps, err := parse(string(data))
	if err != nil {
		return fmt.Errorf("transcript: %s: %w", opts.Readme, err)
	}
	dir, err := workingDirectory(opts.Files)
	if err != nil {
		return fmt.Errorf("transcript: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sh, err := startShell(dir, opts.environment())
	if err != nil {
		return fmt.Errorf("transcript: %w", err)
	}
	defer func() { err = errors.Join(err, sh.close()) }()
	if opts.Timeout == 0 {
		opts.Timeout = 2 * time.Minute
	}
	for _, s := range steps {
		if opts.Log != nil {
			opts.Log(s.command)
		}
		if err := s.run(ctx, sh, opts.Timeout); err != nil {
			return fmt.Errorf("transcript: %s:%d: %s%s: %w", opts.Readme, s.line, prompt, s.command, err)
		}
	}
	return nil
}

func (o *Options) environment() []string {
	path := strings.Join(append(o.Bin, os.Getenv("PATH")), string(os.PathListSeparator))
	return append(append(os.Environ(), o.Env...), "PATH="+path)
}

func workingDirectory(files []string) (string, error) {
	dir, err := os.MkdirTemp("", "transcript-")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o600)
		}
		if err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// A step is a command and what it prints.
type step struct {
	line    int
	command string
	output  string
}

// parse returns the steps of the console blocks of a Markdown file.
func parse(markdown string) ([]*step, error) {
	var steps []*step
	inside, continued := false, false
	var current *step // the one that output belongs to, nil at the start of a block
	for i, line := range strings.Split(markdown, "\n") {
		switch {
		case !inside:
			inside = line == "```console"
			current = nil
		case line == "```":
			inside = false
		case continued:
			current.command += "\n" + line
			continued = strings.HasSuffix(line, `\`)
		case strings.HasPrefix(line, prompt):
			current = &step{line: i + 1, command: strings.TrimPrefix(line, prompt)}
			continued = strings.HasSuffix(line, `\`)
			steps = append(steps, current)
		case current == nil:
			return nil, fmt.Errorf("line %d: %q is the output of no command", i+1, line)
		default:
			current.output += line + "\n"
		}
	}
	switch {
	case inside:
		return nil, errors.New("the last console block has no end")
	case len(steps) == 0:
		return nil, errors.New("no console block with a command")
	}
	return steps, nil
}

// run returns nil when the output is what it should be.
func (s *step) run(ctx context.Context, sh *shell, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var seen error // what was wrong with the newest output
	for {
		got, err := sh.run(ctx, s.command)
		switch {
		case err != nil:
			return errors.Join(seen, err)
		case Matches(s.output, got):
			return nil
		case !Looks(s.command):
			return difference(s.output, got)
		}
		seen = fmt.Errorf("%w, after %v", difference(s.output, got), timeout)
		select {
		case <-ctx.Done():
			return seen
		case <-time.After(interval):
		}
	}
}

func difference(want, got string) error {
	return fmt.Errorf("prints\n%s\ninstead of\n%s", got, want)
}
