package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	partSuffix = ".part-"         // in the name of what isn't whole
	abandoned  = 10 * time.Minute // that a part hasn't been written to: whoever began it has been killed
)

// A folder is where programs are installed.
type folder struct {
	path   string
	recipe string // of what is installed
}

// prepare finds out whether programs can be installed in a folder, and takes away the parts that
// killed runs have left.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("folder %s: can't be made: %w", dir, err)
	}
	probe, err := os.CreateTemp(dir, ".probe"+partSuffix)
	if err != nil {
		return fmt.Errorf("folder %s: can't be written to: %w", dir, err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return fmt.Errorf("folder %s: %w", dir, err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, ".*"+partSuffix+"*"))
	if err != nil {
		return fmt.Errorf("folder %s: %w", dir, err)
	}
	for _, part := range parts {
		info, err := os.Stat(part)
		if err != nil || time.Since(info.ModTime()) < abandoned {
			continue
		}
		if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("folder %s: %w", dir, err)
		}
	}
	return nil
}

// A download is a file of a folder that has no name yet: install gives it one.
type download struct {
	*os.File
	folder folder
	name   string
	done   bool
}

// create begins a download. The caller must call discard in the end.
func (f folder) create(name string) (*download, error) {
	file, err := os.CreateTemp(f.path, "."+name+partSuffix)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &download{File: file, folder: f, name: name}, nil
}

// discard removes what hasn't been installed.
func (d *download) discard() {
	if d.done {
		return
	}
	d.done = true
	_ = d.Close()
	_ = os.Remove(d.Name())
}

// install makes the program executable and puts it in its place. What was there is replaced in
// one step, and so its recipe is taken away first: should this process be killed in
// between, the program counts as outdated.
func (d *download) install() error {
	place := filepath.Join(d.folder.path, d.name)
	recipe := filepath.Join(d.folder.path, "."+d.name+".recipe")
	if err := errors.Join(d.Chmod(0o755), d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	if err := os.Remove(recipe); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	if err := os.Rename(d.Name(), place); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	d.done = true
	if err := os.WriteFile(recipe, []byte(d.folder.recipe+"\n"), 0o644); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}
