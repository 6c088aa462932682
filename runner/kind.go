package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// startTimeout bounds the requests of the start, so that an API server that
// can't be reached is an error rather than a silent hang.
const startTimeout = 8 * time.Second

// A kind is a watched type as the API server serves it, with what the
// operator's configuration says of it. It is immutable.
type kind struct {
	Type       resource.Type
	gvr        schema.GroupVersionResource
	namespaced bool
	status     bool // has a status subresource

	// Of child types only.
	child      config.Child
	order      int // position in which the type is written
	comparison comparison
	builtin    *listkeys.Node // the schema of a type that every cluster has; nil: it isn't one
}

// secret says whether the values of this type must never leave the process.
func (k *kind) secret() bool { return k.gvr.Group == "" && k.gvr.Resource == "secrets" }

// rule prints an RBAC rule that allows verbs.
func (k *kind) rule(verbs ...string) string {
	return ruleText(k.gvr.Group, k.gvr.Resource, verbs...)
}

// A catalog is every type of an operator.
type catalog struct {
	parent   *kind
	children []*kind // in the order in which they are written
	byType   map[resource.Type]*kind
}

func (c *catalog) all() []*kind { return append([]*kind{c.parent}, c.children...) }

// discover asks the API server how it serves the types of cfg.
func discover(ctx context.Context, dc *discovery.DiscoveryClient, cfg config.Operator, host string) (*catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c := &catalog{byType: map[resource.Type]*kind{}}
	var missing []error
	served := map[string]*metav1.APIResourceList{}
	for i, child := range append([]config.Child{{Type: cfg.Parent}}, cfg.Children...) {
		k, err := discoverKind(ctx, dc, child.Type, served)
		switch {
		case err != nil:
			return nil, unreachable(host, err)
		case k == nil:
			missing = append(missing, notServed(child.Type))
			continue
		}
		k.child = child
		c.byType[child.Type] = k
		if i == 0 {
			c.parent = k
		} else {
			c.children = append(c.children, k)
		}
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	if err := checkScopes(c, cfg); err != nil {
		return nil, err
	}
	c.sort()
	for _, k := range c.children {
		if err := k.learn(ctx, dc); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// sort puts the children into the order in which they are written.
func (c *catalog) sort() {
	// Namespaces first: what is created may have to live in them.
	slices.SortStableFunc(c.children, func(a, b *kind) int {
		switch {
		case a.isNamespace() == b.isNamespace():
			return 0
		case a.isNamespace():
			return -1
		}
		return 1
	})
	for i, k := range c.children {
		k.order = i
	}
}

func (k *kind) isNamespace() bool { return k.gvr.Group == "" && k.gvr.Resource == "namespaces" }

func checkScopes(c *catalog, cfg config.Operator) error {
	if !c.parent.namespaced && len(cfg.Namespaces) > 0 {
		return fmt.Errorf("config: Namespaces: %s is cluster-scoped, so the operator can't be restricted to namespaces; use ParentSelector", cfg.Parent)
	}
	return nil
}

// discoverKind returns nil if the type isn't served. In served it finds and
// leaves the answers by API version.
func discoverKind(ctx context.Context, dc *discovery.DiscoveryClient, t resource.Type, served map[string]*metav1.APIResourceList) (*kind, error) {
	list := served[t.APIVersion]
	if list == nil {
		var err error
		list, err = dc.ServerResourcesForGroupVersionWithContext(ctx, t.APIVersion)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		served[t.APIVersion] = list
	}
	gv := t.GroupVersionKind().GroupVersion()
	var found *kind
	status := map[string]bool{}
	for _, r := range list.APIResources {
		if name, sub, ok := strings.Cut(r.Name, "/"); ok {
			status[name] = status[name] || sub == "status"
		} else if r.Kind == t.Kind {
			found = &kind{Type: t, gvr: gv.WithResource(r.Name), namespaced: r.Namespaced}
		}
	}
	if found == nil {
		return nil, nil
	}
	found.status = status[found.gvr.Resource]
	return found, nil
}

func notServed(t resource.Type) error {
	gvk := t.GroupVersionKind()
	if !strings.Contains(gvk.Group, ".") {
		return fmt.Errorf("%s: the API server doesn't serve this type; check apiVersion and kind, or the version of the cluster", t)
	}
	return fmt.Errorf("%s: the API server doesn't serve this type; install the CustomResourceDefinition of kind %s in group %s (kubectl apply -f …) and see that it serves version %s",
		t, gvk.Kind, gvk.Group, gvk.Version)
}

func unreachable(host string, err error) error {
	var netErr net.Error
	var urlErr *url.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &netErr) || errors.As(err, &urlErr) {
		return fmt.Errorf("API server %s can't be reached: %w; check that it runs and that the kubeconfig names it", host, err)
	}
	return fmt.Errorf("API server %s: discovery: %w", host, err)
}

// learn finds out how objects of this type are compared.
func (k *kind) learn(ctx context.Context, dc *discovery.DiscoveryClient) error {
	if err := k.parseIgnored(); err != nil {
		return err
	}
	if k.builtin = listkeys.For(k.Type); k.builtin != nil {
		k.comparison.schema = k.builtin
		return nil
	}
	k.comparison.schema = customSchema(ctx, dc, k.Type)
	return nil
}

func (k *kind) parseIgnored() error {
	for _, path := range k.child.IgnoreFields {
		p, err := fieldpath.Parse(path)
		if err != nil {
			return fmt.Errorf("config: %s: IgnoreFields: %w", k.Type, err)
		}
		k.comparison.ignore = append(k.comparison.ignore, p)
	}
	return nil
}
