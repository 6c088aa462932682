package transcript

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// readme writes a file with the session.
func readme(t *testing.T, session string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "README.md")
	require.NoError(t, os.WriteFile(path, []byte("# It\n\n```console\n"+session+"```\n\nThat was it.\n"), 0o600))
	return path
}

func TestRun(t *testing.T) {
	cases := map[string]struct {
		reason  string
		session string
		want    string // of the error
	}{
		"Right": {
			reason:  "What is printed is what the README says, to both outputs.",
			session: "$ echo one; echo two >&2\none\ntwo\n$ true\n$ echo 3\n3\n",
		},
		"OneShell": {
			reason:  "A session keeps its variables, files and jobs.",
			session: "$ it=yes; echo $it >file\n$ cat file\nyes\n$ echo bye >job &\n$ wait $!; cat job\nbye\n",
		},
		"Continued": {
			reason:  "A long command goes on in the next line.",
			session: "$ echo one \\\n    two\none two\n",
		},
		"NoInput": {
			reason:  "A command that reads doesn't get the next one.",
			session: "$ cat; echo that was it\nthat was it\n",
		},
		"FailedCommand": {
			reason:  "What counts is what is printed.",
			session: "$ ls missing; echo $?\nls: cannot access 'missing': No such file or directory\n2\n",
		},
		"Loop": {
			reason:  "A command that looks is repeated.",
			session: "$ (read -t 0.5 <> <(:); echo done >file) &\n$ cat file; true\ndone\n",
		},
		"Versions": {
			reason:  "An older kubectl doesn't say from where.",
			session: "$ echo 'pod \"a\" deleted'\npod \"a\" deleted from default namespace\n",
		},
		"Wrong": {
			reason:  "One that acts is not.",
			session: "$ true\n$ echo one\ntwo\n",
			want:    "README.md:5: $ echo one: prints\none\n\ninstead of\ntwo\n",
		},
		"Missing": {
			reason:  "Output that is missing is a difference too.",
			session: "$ true\none\n",
			want:    "prints\n\ninstead of\none\n",
		},
		"NeverRight": {
			reason:  "Looking ends some time.",
			session: "$ echo one >file\n$ cat file\ntwo\n",
			want:    "prints\none\n\ninstead of\ntwo\n, after 2s",
		},
		"Exit": {
			reason:  "The shell is there to the end.",
			session: "$ exit 3\n",
			want:    "shell: ended after printing",
		},
		"Hangs": {
			reason:  "A command that doesn't end is an error.",
			session: "$ read -t 4 <> <(:)\n",
			want:    "shell: not done after printing \"\": context deadline exceeded",
		},
		"NoCommand": {
			reason:  "Output needs a command.",
			session: "one\n",
			want:    "line 4: \"one\" is the output of no command",
		},
		"Empty": {
			reason:  "A README without a session shows nothing.",
			session: "",
			want:    "no console block with a command",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := Options{Readme: readme(t, tc.session), Timeout: time.Minute}
			if tc.want != "" {
				opts.Timeout = 2 * time.Second
			}
			err := Run(t.Context(), opts)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.want, tc.reason)
			}
		})
	}
}

func TestRunEndsWhatItStarted(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	session := "$ (trap 'echo asked to stop >" + told + "; exit' TERM; echo yes >ready; while :; do read -t 0.1 <> <(:); done) &\n$ cat ready\nyes\n"
	require.NoError(t, Run(t.Context(), Options{Readme: readme(t, session)}))
	data, err := os.ReadFile(told)
	require.NoError(t, err, "it has ended when Run returns")
	require.Equal(t, "asked to stop\n", string(data))
}

func TestRunSurroundings(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sample.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kind: Sample\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "greet"), []byte("#!/bin/sh\necho hello, $WHO\n"), 0o700))
	var log []string
	opts := Options{
		Readme: readme(t, "$ cat sample.yaml\nkind: Sample\n$ greet\nhello, world\n$ rm sample.yaml; ls\n"),
		Files:  []string{file}, Bin: []string{dir}, Env: []string{"WHO=world"},
		Log: func(command string) { log = append(log, command) },
	}
	require.NoError(t, Run(t.Context(), opts))
	require.Equal(t, []string{"cat sample.yaml", "greet", "rm sample.yaml; ls"}, log)
	require.FileExists(t, file, "the session has a copy")

	opts.Files = []string{filepath.Join(dir, "none")}
	require.ErrorIs(t, Run(t.Context(), opts), os.ErrNotExist)
	opts.Readme = filepath.Join(dir, "none")
	require.ErrorIs(t, Run(t.Context(), opts), os.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Run(ctx, Options{Readme: readme(t, "$ read -t 4 <> <(:)\n")}), context.Canceled)
}

func TestParse(t *testing.T) {
	_, err := parse("```console\n$ true\n")
	require.EqualError(t, err, "the last console block has no end")
	steps, err := parse(strings.Join([]string{
		"```sh", "$ not me", "```", "```console", "$ one", "1", "```", "between", "```console", "$ two", "```",
	}, "\n"))
	require.NoError(t, err)
	require.Equal(t, []*step{{5, "one", "1\n"}, {10, "two", ""}}, steps)
}

func TestMatches(t *testing.T) {
	cases := map[string]struct {
		reason    string
		want, got string
		differ    bool
	}{
		"Same":      {"the same text", "a\nb\n", "a\nb\n", false},
		"Padding":   {"columns are as wide as they need to be", "NAME   AGE\na      5s\n", "NAME      AGE\na         5s\n", false},
		"Age":       {"time passes", "a 5s\n", "a 1m3s\n", false},
		"Time":      {"everything happens some time", "at 2026-01-02T03:04:05Z\n", "at 2027-11-12T13:14:15.123+02:00\n", false},
		"LogTime":   {"in package log's format too", "2026/01/02 03:04:05 ERROR\n", "2027/11/12 13:14:15 ERROR\n", false},
		"Repeated":  {"an Event may have been told again by now", "5s   Warning\n", "1s (x3 over 17s)   Warning\n", false},
		"Pod":       {"the hash is of the template, the rest is random", "pod/world-7d9c5b8f6d-x2x4z\n", "pod/world-66cc9f7b95-abcde\n", false},
		"Ellipsis":  {"what is too long to show", "a: … c\n…\nd\n", "a: b1 b2 c\nx\ny\nd\n", false},
		"Literal":   {"no other character means anything", "a.b (c)*\n", "a.b (c)*\n", false},
		"NotAny":    {"not even a dot", "a.b\n", "axb\n", true},
		"Other":     {"another text", "a\n", "b\n", true},
		"More":      {"a line too many", "a\n", "a\nb\n", true},
		"Less":      {"a line too few", "a\nb\n", "a\n", true},
		"OtherName": {"a name is not an age", "world 5s\n", "word 5s\n", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, !tc.differ, Matches(tc.want, tc.got), tc.reason)
		})
	}
}
