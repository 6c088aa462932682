package recorder_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler/recorder"
)

// files returns the files of a Recorder that there are, oldest first.
func files(t testing.TB, path string) []string {
	t.Helper()
	rotated, err := filepath.Glob(path + ".*")
	require.NoError(t, err)
	out := []string{}
	for number := len(rotated); number > 0; number-- {
		require.FileExists(t, fmt.Sprintf("%s.%d", path, number), "no number is left out")
		out = append(out, fmt.Sprintf("%s.%d", path, number))
	}
	return append(out, path)
}

// TestRotation: the newest calls are in whole files, of a bounded size.
func TestRotation(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 2, 3, 7} {
		t.Run(fmt.Sprint(count, " files"), func(t *testing.T) {
			t.Parallel()
			const calls, maxBytes = 3000, 5000
			path := inFolder(t)
			r, log := begin(t, sites(), recorder.Options{Path: path, MaxBytes: maxBytes, Files: count})
			for n := range calls {
				call(t, r, fmt.Sprint("p", n, "-", strings.Repeat("x", n%60)))
				if n%50 != 0 {
					continue
				}
				total := 0
				for _, file := range files(t, path) {
					info, err := os.Stat(file)
					require.NoError(t, err)
					require.Equal(t, os.FileMode(0o600), info.Mode())
					require.LessOrEqual(t, info.Size(), int64(maxBytes))
					total += int(info.Size())
				}
				require.LessOrEqual(t, total, count*maxBytes)
			}
			there := files(t, path)
			require.Len(t, there, count)
			var names []string
			for _, file := range there {
				names = append(names, recorded(t, file)...)
			}
			require.Greater(t, len(names), (count-1)*5)
			for i, name := range names {
				require.True(t, strings.HasPrefix(name, fmt.Sprint("p", calls-len(names)+i, "-")), "%s: the newest calls are there, in their order", name)
			}
			require.Empty(t, log.take())
		})
	}
}

// TestDefaults: there are three files of 10 MiB.
func TestDefaults(t *testing.T) {
	t.Parallel()
	path := inFolder(t)
	r, _ := begin(t, sites(), recorder.Options{Path: path})
	size := func() int64 {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Size()
	}
	call(t, r, "page")
	first := size()
	call(t, r, "page")
	line := size() - first
	grow := func(size int64) { // by a line of zeros
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = file.WriteAt([]byte{'\n'}, size-1)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	grow(10<<20 - line)
	call(t, r, "page")
	require.EqualValues(t, 10<<20, size(), "it just fits")
	require.NoFileExists(t, path+".1")
	for range 4 {
		call(t, r, "page")
		require.Equal(t, first, size(), "another file has begun")
		grow(10<<20 - line + 1)
	}
	require.Len(t, files(t, path), 3)
}

// TestFilesThatAreThere: what a Recorder makes of the files of an earlier one.
func TestFilesThatAreThere(t *testing.T) {
	t.Parallel()
	path := inFolder(t)
	before, _ := begin(t, sites(), recorder.Options{Path: path, MaxBytes: 4096, Files: 9})
	for n := range 200 {
		call(t, before, fmt.Sprint("before", n))
	}
	require.NoError(t, before.Close())
	require.Len(t, files(t, path), 9)
	old := recorded(t, path)
	copied := path + ".20260101"
	require.NoError(t, os.WriteFile(copied, nil, 0o600))

	r, log := begin(t, sites(), recorder.Options{Path: path, MaxBytes: 1 << 20, Files: 4})
	require.FileExists(t, path+".8", "nothing is changed before a call is recorded")
	call(t, r, "after")
	require.FileExists(t, copied, "it isn't one of a Recorder's")
	require.NoError(t, os.Remove(copied))
	require.Len(t, files(t, path), 4, "those that are too many are gone")
	require.Equal(t, append(old, "after"), recorded(t, path), "it is gone on with")
	require.NoError(t, r.Close())

	r, _ = begin(t, sites(), recorder.Options{Path: path, MaxBytes: 4096, Files: 4})
	require.NoError(t, os.Remove(path+".2"))
	oldest, younger := recorded(t, path+".3"), recorded(t, path+".1")
	for n := range 4 { // for which the file has no room
		call(t, r, fmt.Sprint("last", n, strings.Repeat("x", 200)))
	}
	require.Len(t, files(t, path), 4)
	require.Equal(t, oldest, recorded(t, path+".3"), "the oldest isn't replaced while a younger name is free")
	require.Equal(t, younger, recorded(t, path+".2"))
	require.Empty(t, log.take())
}

// TestOpen: what a Recorder makes of the file that is there.
func TestOpen(t *testing.T) {
	t.Parallel()
	whole := inFolder(t)
	r, _ := begin(t, sites(), recorder.Options{Path: whole})
	call(t, r, "one")
	call(t, r, "two")
	text, err := os.ReadFile(whole)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	head, one, two := lines[0], lines[1], lines[2]
	later := strings.Replace(head, "/v1", "/v2", 1)
	long := `{"call":"` + strings.Repeat("x", 100_000)
	for name, tc := range map[string]struct {
		reason, text string
		want         []string // of the file after one more call
		aside        string   // what is in the file beside it; "": there is none
	}{
		"empty":       {"it is as if it weren't there", "", []string{"more"}, ""},
		"part":        {"of a header: there was no call", head[:12], []string{"more"}, ""},
		"no end":      {"of the header's line", head[:len(head)-1], []string{"more"}, ""},
		"header":      {"half a line was cut off before", head, []string{"more"}, ""},
		"whole":       {"it goes on", head + one + two, []string{"one", "two", "more"}, ""},
		"half":        {"of a line", head + one + two[:30], []string{"one", "more"}, ""},
		"first half":  {"of the first line", head + one[:30], []string{"more"}, ""},
		"no newline":  {"nobody knows that the line is whole", head + one + two[:len(two)-1], []string{"one", "more"}, ""},
		"long half":   {"a line may be long", head + one + long, []string{"one", "more"}, ""},
		"zeros":       {"a file system may leave them after a crash", head + one + strings.Repeat("\x00", 5000), []string{"one", "more"}, ""},
		"later":       {"its lines are others", later + "{}\n", []string{"more"}, later + "{}\n"},
		"later, half": {"it is left as it is", later + "{", []string{"more"}, later + "{"},
	} {
		t.Run(name, func(t *testing.T) {
			path := inFolder(t)
			require.NoError(t, os.WriteFile(path, []byte(tc.text), 0o640))
			r, log := begin(t, sites(), recorder.Options{Path: path})
			is, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, tc.text, string(is), "who records nothing changes nothing")
			call(t, r, "more")
			require.Equal(t, tc.want, recorded(t, path), tc.reason)
			if tc.aside == "" {
				require.NoFileExists(t, path+".1")
				info, err := os.Stat(path)
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o640), info.Mode(), "it keeps its mode")
			} else {
				aside, err := os.ReadFile(path + ".1")
				require.NoError(t, err)
				require.Equal(t, tc.aside, string(aside), tc.reason)
			}
			require.Empty(t, log.take())
		})
	}
}

// TestTakenAway: somebody else may do with the file what he likes.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		act    func(path string) error
	}{
		"moved":   {"somebody wants to keep it", func(path string) error { return os.Rename(path, path+"-kept") }},
		"removed": {"somebody needs the space", os.Remove},
		"emptied": {"the same", func(path string) error { return os.Truncate(path, 0) }},
		"replaced": {"by another recording", func(path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.WriteFile(path, text[:len(text)-5], 0o600)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := inFolder(t)
			r, log := begin(t, sites(), recorder.Options{Path: path})
			call(t, r, "one")
			require.NoError(t, tc.act(path), tc.reason)
			call(t, r, "two")
			require.Equal(t, []string{"two"}, recorded(t, path), tc.reason)
			require.Empty(t, log.take())
		})
	}
}

// TestFailingDisk: the handler goes on, the log says so once, and recording goes on when it can.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("x", 500) // it is in a line four times, so that a file has room for one line
	for name, tc := range map[string]struct {
		reason       string
		breaks, mend func(path string) error
		says         string
	}{
		"folder removed": {
			"the file is still open", func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
			func(path string) error { return os.Mkdir(filepath.Dir(path), 0o700) }, "no such file or directory",
		},
		"folder in the way": {
			"a full file can't be renamed", func(path string) error { return os.MkdirAll(path+".1/sub", 0o700) },
			func(path string) error { return os.RemoveAll(path + ".1") }, "rename ",
		},
		"folder in its place": {
			"it isn't a file any more", func(path string) error {
				if err := os.Remove(path); err != nil {
					return err
				}
				return os.Mkdir(path, 0o700)
			}, os.Remove, "it isn't a regular file",
		},
		"other file": {
			"it is somebody's", func(path string) error {
				if err := os.Remove(path); err != nil {
					return err
				}
				return os.WriteFile(path, []byte("buy milk\n"), 0o600)
			}, os.Remove, "it isn't a recording",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "folder", "sites.jsonl")
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			synctest.Test(t, func(t *testing.T) {
				r, log := begin(t, sites(), recorder.Options{Path: path, MaxBytes: 4096, Files: 2})
				call(t, r, "before"+full)
				require.Empty(t, log.take())
				require.NoError(t, tc.breaks(path), tc.reason)
				for range 5 {
					call(t, r, "lost"+full)
				}
				lines := log.take()
				require.Len(t, lines, 1, "one for all")
				require.Contains(t, lines[0], `"level":"WARN"`)
				require.Contains(t, lines[0], tc.says)
				require.Contains(t, lines[0], path)
				pass(t, time.Minute)
				for range 5 {
					call(t, r, "lost again"+full)
				}
				require.Empty(t, log.take(), "nothing has changed")
				require.NoError(t, tc.mend(path))
				pass(t, time.Minute-time.Second)
				call(t, r, "too early"+full)
				pass(t, time.Second)
				require.Empty(t, log.take())
				call(t, r, "after"+full)
				lines = log.take()
				require.Len(t, lines, 1)
				require.Contains(t, lines[0], `"level":"INFO"`)
				require.Contains(t, lines[0], `"missed":11`)
				require.Equal(t, []string{"after" + full}, recorded(t, path))
				require.NoError(t, os.RemoveAll(filepath.Dir(path)))
				call(t, r, "lost")
				require.Len(t, log.take(), 1, "the next failure is another")
				require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
				pass(t, time.Minute)
				call(t, r, "after")
				require.Contains(t, log.take()[0], `"missed":1}`)
				require.NoError(t, r.Close())
				require.Contains(t, log.take()[0], `"tooLarge":0,"notEncoded":0,"notWritten":12`)
			})
		})
	}
}

// pass lets a time pass, in a bubble of synctest.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// TestReadOnly: a folder that can't be written to.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	folder := t.TempDir()
	require.NoError(t, os.Chmod(folder, 0o500))
	_, err := recorder.New(sites(), recorder.Options{Path: filepath.Join(folder, "sites.jsonl")})
	require.ErrorContains(t, err, "recorder: Path: open "+folder)
	require.ErrorIs(t, err, os.ErrPermission)
}
