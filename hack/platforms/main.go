// Command platforms finds whether the packages that users import compile for the platforms that
// users work on, and for the starter, which is such a user. It type-checks these packages and all
// that they import from source, so that nothing is compiled: for three platforms that takes less
// than the compilation for one.
//
//	go run ./hack/platforms
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// platforms are pairs of GOOS and GOARCH.
func platforms() []string { return []string{"linux/amd64", "darwin/arm64", "windows/amd64"} }

// A module is a part of the repository, and the packages of it that are checked.
type module struct {
	dir, work string // "": no workspace
	packages  []string
}

func modules() []module {
	return []module{
		{".", "off", []string{"./config", "./handler/...", "./resource/...", "./runner", "./testkit"}},
		{"examples/starter", "hack/starter/go.work", []string{"./..."}},
	}
}

func main() {
	root := flag.String("root", ".", "the repository's `folder`")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "platforms:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	var errs []error
	for _, platform := range platforms() {
		started := time.Now()
		c := &checker{platform: platform, files: token.NewFileSet(), checked: map[string]*types.Package{"unsafe": types.Unsafe}}
		for _, m := range modules() {
			if err := c.check(root, m); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", platform, m.dir, err))
			}
		}
		fmt.Printf("platforms: %s: %d packages in %.1f s\n", platform, len(c.checked), time.Since(started).Seconds())
	}
	return errors.Join(errs...)
}

// A checker type-checks packages for one platform.
type checker struct {
	platform string
	files    *token.FileSet
	checked  map[string]*types.Package
}

// A listed is a package as `go list` describes it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ GoVersion string }
	Error           *struct{ Err string }
}

// check type-checks the packages of a module after what they import.
func (c *checker) check(root string, m module) error {
	list := exec.CommandContext(context.Background(), "go", append([]string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error"}, m.packages...)...)
	list.Dir, list.Stderr = filepath.Join(root, m.dir), os.Stderr
	goos, goarch, _ := strings.Cut(c.platform, "/")
	work := m.work
	if work != "off" {
		work = filepath.Join(root, work)
	}
	list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOWORK="+work)
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg listed
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		if pkg.Error != nil {
			return fmt.Errorf("%s: %s", pkg.ImportPath, pkg.Error.Err)
		}
		if c.checked[pkg.ImportPath] != nil {
			continue
		}
		if err := c.checkPackage(&pkg); err != nil {
			return err
		}
	}
}

// An imports finds packages for one that imports them.
type imports struct {
	c   *checker
	pkg *listed
}

// Import returns a package that was checked before.
func (i imports) Import(path string) (*types.Package, error) {
	if mapped := i.pkg.ImportMap[path]; mapped != "" {
		path = mapped
	}
	if found := i.c.checked[path]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("import %s: not listed", path)
}

func (c *checker) checkPackage(pkg *listed) error {
	var parsed []*ast.File
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(c.files, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, file)
	}
	_, goarch, _ := strings.Cut(c.platform, "/")
	var errs []error
	config := types.Config{
		Importer: imports{c, pkg}, Sizes: types.SizesFor("gc", goarch),
		Error: func(err error) { errs = append(errs, err) },
	}
	if pkg.Module != nil && pkg.Module.GoVersion != "" {
		config.GoVersion = "go" + pkg.Module.GoVersion
	}
	checked, _ := config.Check(pkg.ImportPath, c.files, parsed, nil) // Error has its errors
	c.checked[pkg.ImportPath] = checked
	if len(errs) > 0 {
		return fmt.Errorf("%s: %w", pkg.ImportPath, errors.Join(errs[:min(len(errs), 10)]...))
	}
	return nil
}
