package runner

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

const releaseDetails = `For an operator that is to be uninstalled: its parents could not be deleted
afterwards otherwise. Stop the operator first, since it would add its finalizer
again. Finalize isn't called: what it would have cleaned up stays.`

// releaseSubcommand lets go of every parent.
func releaseSubcommand() subcommand {
	return subcommand{name: "release-finalizers", summary: "take the operator's finalizers off every parent", details: releaseDetails, prepare: func(fs *flag.FlagSet, f *flags) carryOut {
		fs.BoolVar(&f.dryRun, "dry-run", false, "only say which would be taken off")
		return func(ctx context.Context, c *command) int {
			opts, err := c.options()
			if err == nil {
				err = releaseFinalizers(ctx, c.cfg, opts, c.stdout)
			}
			if err != nil {
				printErrors(c.stderr, "release-finalizers", err)
				return exitError
			}
			return exitOK
		}
	}}
}

// releaseFinalizers takes this operator's finalizers off every parent, whether
// the ParentSelector matches it or not, so that none waits for an operator
// that is uninstalled. Finalize isn't called. It says on stdout what it did,
// and with cfg.DryRun what it would do. One parent that fails doesn't keep the
// others from being released; the error joins what went wrong.
//
// An operator that still runs would add its finalizer again.
func releaseFinalizers(ctx context.Context, cfg config.Operator, opts Options, stdout io.Writer) error {
	cfg.ParentSelector = "" // who has left it may have been left with our finalizer
	r, err := New(cfg, handler.SyncFunc(nil), opts)
	if err != nil {
		return err
	}
	e, err := r.newReleaser(ctx)
	if err != nil {
		return err
	}
	cfg = e.cfg // with its defaults
	namespaces := cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var released, seen int
	var errs []error
	for _, ns := range namespaces {
		parents, _, err := e.client.listPages(ctx, &watcher{kind: e.types.parent, stream: stream{Type: cfg.Parent, Namespace: ns}})
		if err != nil {
			errs = append(errs, forbidden(e.types.parent, "list", fmt.Errorf("%s: list: %w", cfg.Parent, err)))
			continue
		}
		slices.SortFunc(parents, compareResources)
		seen += len(parents)
		for _, said := range e.releaseEach(ctx, parents) {
			if said.err != nil {
				errs = append(errs, said.err)
			}
			if said.text != "" {
				released++
				fmt.Fprintln(stdout, said.text)
			}
		}
	}
	would := ""
	if cfg.DryRun {
		would = "would be "
	}
	fmt.Fprintf(stdout, "%d of %s %sreleased.\n", released, counted(seen, "parent"), would)
	return errors.Join(errs...)
}

// newReleaser returns an engine that knows the parents' type alone: those of
// the children may be gone already.
func (r *Runner) newReleaser(ctx context.Context) (*engine, error) {
	l, err := r.connect()
	if err != nil {
		return nil, err
	}
	o := r.operators[0]
	httpClient := l.as(o.cfg.Name, nil)
	c, err := newClient(l.config, httpClient, o.cfg.Name, o.log)
	if err != nil {
		return nil, err
	}
	types, err := o.discoverParent(ctx, l.config, httpClient)
	if err != nil {
		return nil, err
	}
	return newEngine(o.cfg, o.handler, types, c, nil, o.log), nil
}

func (o *operator) discoverParent(ctx context.Context, rc *rest.Config, httpClient *http.Client) (*catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dc, err := discovery.NewDiscoveryClientForConfigAndClient(rc, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	k, err := discoverKind(ctx, dc, o.cfg.Parent, map[string]*metav1.APIResourceList{})
	switch {
	case err != nil:
		return nil, unreachable(rc.Host, err)
	case k == nil:
		return nil, notServed(o.cfg.Parent)
	}
	types := &catalog{parent: k, byType: map[resource.Type]*kind{k.Type: k}}
	return types, checkScopes(types, o.cfg)
}

// A releaseResult is what became of a parent: nothing if both are empty.
type releaseResult struct {
	text string
	err  error
}

// releaseEach releases parents, several at a time, with the results in their
// order.
func (r *engine) releaseEach(ctx context.Context, parents []*resource.Resource) []releaseResult {
	results := make([]releaseResult, len(parents))
	slots := make(chan struct{}, r.cfg.MaxConcurrentSyncs)
	var wg sync.WaitGroup
	for i, parent := range parents {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = r.releaseOne(ctx, parent)
		})
	}
	wg.Wait()
	return results
}

func (r *engine) releaseOne(ctx context.Context, parent *resource.Resource) releaseResult {
	ours := slices.DeleteFunc(slices.Clone(parent.Finalizers()), func(f string) bool { return len(r.withoutOurs([]string{f})) > 0 })
	if len(ours) == 0 {
		return releaseResult{}
	}
	what := fmt.Sprintf("%s: finalizer %s", refOf(parent), strings.Join(ours, ", "))
	if r.cfg.DryRun {
		return releaseResult{text: what + " would be removed"}
	}
	_, err := r.setFinalizers(ctx, parent, r.withoutOurs)
	switch {
	case apierrors.IsNotFound(err):
		return releaseResult{} // gone meanwhile
	case err != nil:
		return releaseResult{err: fmt.Errorf("%s: %w", what, err)}
	}
	return releaseResult{text: what + " removed"}
}
