package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/remote"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/versions"
)

// maxProgram bounds what is unpacked of one program: the largest has 150 MB.
const maxProgram = 1 << 30

// An archive is a release of envtest, found by its index and checked against the sum there.
type archive struct {
	names    []string
	opts     options
	folder   folder
	progress *progress
}

func (a archive) fetch(ctx context.Context) error {
	index := locate(a.opts.mirror, envtestIndex)
	client := &remote.HTTPClient{Log: logr.Discard(), IndexURL: index}
	release, platform, err := a.choose(ctx, client)
	if err != nil {
		return fmt.Errorf("envtest, %s: %w", shown(index), err)
	}
	if "v"+release.String() != a.opts.kubernetes {
		a.progress.say("%s: envtest has no %s; taking v%s, the newest that it has of this minor version",
			strings.Join(a.names, ", "), a.opts.kubernetes, release)
	}
	file, err := a.folder.create("envtest")
	if err != nil {
		return err
	}
	defer file.discard()
	if err := client.GetVersion(ctx, release, platform, file); err != nil {
		return fmt.Errorf("envtest, %s: %w", shown(index), err)
	}
	return a.unpack(file)
}

// choose returns the wanted version for the platform, or the newest of its minor version.
func (a archive) choose(ctx context.Context, client remote.Client) (versions.Concrete, versions.PlatformItem, error) {
	var want, best versions.Concrete
	var found versions.PlatformItem
	if _, err := fmt.Sscanf(a.opts.kubernetes, "v%d.%d.%d", &want.Major, &want.Minor, &want.Patch); err != nil {
		return best, found, fmt.Errorf("version %q: %w", a.opts.kubernetes, err)
	}
	sets, err := client.ListVersions(ctx)
	if err != nil {
		return best, found, err
	}
	for _, set := range sets {
		if set.Version.Major != want.Major || set.Version.Minor != want.Minor || best == want {
			continue
		}
		for _, platform := range set.Platforms {
			fits := platform.OS == a.opts.goos && platform.Arch == a.opts.goarch
			if fits && (found.Hash == nil || set.Version == want || set.Version.Patch > best.Patch) {
				best, found = set.Version, platform
			}
		}
	}
	if found.Hash == nil {
		return best, found, fmt.Errorf("its index has no %d.%d for %s/%s", want.Major, want.Minor, a.opts.goos, a.opts.goarch)
	}
	return best, found, nil
}

// unpack installs the programs of a downloaded archive: all of them, or none.
func (a archive) unpack(file *download) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	packed, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("envtest: its archive: %w", err)
	}
	programs := map[string]*download{}
	defer func() {
		for _, program := range programs {
			program.discard()
		}
	}()
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("envtest: its archive: %w", err)
		}
		name := path.Base(header.Name)
		if header.Typeflag != tar.TypeReg || !slices.Contains(a.names, name) || programs[name] != nil {
			continue
		}
		if programs[name], err = a.unpackOne(name, header.Size, archive); err != nil {
			return err
		}
	}
	for _, name := range a.names {
		if programs[name] == nil {
			return fmt.Errorf("envtest: its archive has no %s", name)
		}
	}
	for _, name := range a.names {
		if err := programs[name].install(); err != nil {
			return err
		}
	}
	return nil
}

func (a archive) unpackOne(name string, size int64, from io.Reader) (*download, error) {
	if size > maxProgram {
		return nil, fmt.Errorf("envtest: its archive has a %s of %d bytes", name, size)
	}
	program, err := a.folder.create(name)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(program, from); err != nil {
		program.discard()
		return nil, fmt.Errorf("envtest: its archive: %s: %w", name, err)
	}
	return program, nil
}
