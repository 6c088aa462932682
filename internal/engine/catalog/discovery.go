package catalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// discoveryTimeout bounds the requests of a discovery, so that an API server
// that can't be reached is an error rather than a silent hang.
const discoveryTimeout = 8 * time.Second

// A Finder asks the API server how it serves types. Its methods may be called concurrently.
type Finder struct {
	client *discovery.DiscoveryClient
	host   string // of the API server, for errors
	// BuiltIn returns the schema of a built-in type, nil if a type is none. NewFinder sets it
	// to listkeys.For; a test that starts many operators keeps what that has read.
	BuiltIn func(t resource.Type) *listkeys.Node
}

// NewFinder returns a finder. It makes no request.
func NewFinder(rc *rest.Config, httpClient *http.Client) (*Finder, error) {
	dc, err := discovery.NewDiscoveryClientForConfigAndClient(rc, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Finder{client: dc, host: rc.Host, BuiltIn: listkeys.For}, nil
}

// Discover asks the API server how it serves the types of cfg. It fails if the API
// server can't be reached, or doesn't serve one of the types that aren't optional. The
// error then names all of these. It also fails if two of the types are the same
// objects. The schemas of children that aren't built in are pending: Schemas reads
// them.
func (f *Finder) Discover(ctx context.Context, cfg config.Operator) (*Catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	served := map[string]*metav1.APIResourceList{}
	c, err := newCatalog(cfg, func(t resource.Type) (*Kind, error) {
		k, err := discoverKind(ctx, f.client, t, served, confirmUnserved)
		if err != nil {
			return nil, unreachable(f.host, err)
		}
		return k, nil
	}, func() []resource.Type { return f.allServed(ctx) })
	if err != nil {
		return nil, err
	}
	for _, k := range c.Children {
		if err := k.compareBy(f.BuiltIn(k.Type)); err != nil {
			return nil, err
		}
		k.Comparison.Pending = k.Builtin == nil
	}
	return c, checkStorage(c)
}

// DiscoverParent is Discover for the type of the parents alone. The types of the
// children needn't be served any more.
func (f *Finder) DiscoverParent(ctx context.Context, cfg config.Operator) (*Catalog, error) {
	cfg.Children, cfg.Related, cfg.FormerChildren = nil, nil, nil
	return f.Discover(ctx, cfg)
}

// Find asks the API server how it serves one type. It returns nil if the API server
// doesn't.
func (f *Finder) Find(ctx context.Context, t resource.Type) (*Kind, error) {
	return f.find(ctx, t, confirmUnserved)
}

// FindLost is Find for a type whose objects count as gone already: that it isn't served isn't confirmed, so that it takes
// one request to ask again.
func (f *Finder) FindLost(ctx context.Context, t resource.Type) (*Kind, error) {
	return f.find(ctx, t, func(context.Context, *discovery.DiscoveryClient, schema.GroupVersion) error { return nil })
}

func (f *Finder) find(ctx context.Context, t resource.Type, confirm confirmation) (*Kind, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	k, err := discoverKind(ctx, f.client, t, map[string]*metav1.APIResourceList{}, confirm)
	if err != nil {
		return nil, unreachable(f.host, err)
	}
	return k, nil
}

// checkStorage returns an error if two types of a catalog are the same objects,
// served in two API groups. Each would be seen as a foreign object, or as a
// conflict, through the other type. The API server tells by the form in which it
// stores the objects, which is theirs alone.
func checkStorage(c *Catalog) error {
	first := map[string]*Kind{}
	for _, k := range c.All() {
		if k.storage == "" {
			continue
		}
		if other := first[k.storage]; other != nil {
			return fmt.Errorf("config: %s and %s are the same objects, which the API server serves in two API groups; configure one of them, and use it for all", other.Type, k.Type)
		}
		first[k.storage] = k
	}
	return nil
}

// discoverKind asks the API server how it serves one type. It returns nil if the
// API server doesn't, which confirm confirms. served caches the answers, by API version, so that the API
// server is asked once for each version.
func discoverKind(ctx context.Context, dc *discovery.DiscoveryClient, t resource.Type, served map[string]*metav1.APIResourceList, confirm confirmation) (*Kind, error) {
	list := served[t.APIVersion]
	if list == nil {
		var err error
		list, err = dc.ServerResourcesForGroupVersionWithContext(ctx, t.APIVersion)
		switch {
		case apierrors.IsNotFound(err):
			return nil, confirm(ctx, dc, t.GroupVersionKind().GroupVersion())
		case err != nil:
			return nil, err
		case len(list.APIResources) == 0: // which is how client-go passes on that the core group isn't found
			return nil, confirm(ctx, dc, t.GroupVersionKind().GroupVersion())
		}
		served[t.APIVersion] = list
	}
	gv := t.GroupVersionKind().GroupVersion()
	var found *Kind
	hasStatus := map[string]bool{} // by plural
	for _, r := range list.APIResources {
		if name, sub, ok := strings.Cut(r.Name, "/"); ok {
			hasStatus[name] = hasStatus[name] || sub == "status"
		} else if r.Kind == t.Kind {
			found = &Kind{Type: t, GVR: gv.WithResource(r.Name), Namespaced: r.Namespaced, storage: r.StorageVersionHash}
		}
	}
	if found == nil {
		return nil, nil
	}
	found.HasStatus = hasStatus[found.GVR.Resource]
	return found, nil
}

// A confirmation returns an error if it isn't sure that a version of an API group isn't served.
type confirmation func(ctx context.Context, dc *discovery.DiscoveryClient, gv schema.GroupVersion) error

// confirmUnserved returns an error unless the API server's list of groups lacks a version of one. An API server answers
// to what it doesn't serve as any web server does, by 404 with a few words, and so does a proxy before it that has lost
// its way: that alone would let all objects of a type count as gone.
func confirmUnserved(ctx context.Context, dc *discovery.DiscoveryClient, gv schema.GroupVersion) error {
	groups, err := dc.ServerGroupsWithContext(ctx)
	if err != nil {
		return err
	}
	others := false // of the two lists that there are, the one that would have it has come
	for _, group := range groups.Groups {
		others = others || (group.Name == "") == (gv.Group == "")
		for _, version := range group.Versions {
			if version.GroupVersion == gv.String() {
				return fmt.Errorf("%s is listed, but what it has isn't found", gv)
			}
		}
	}
	if !others {
		return fmt.Errorf("%s isn't found, nor is the list of API groups", gv)
	}
	return nil
}

// unreachable returns the error about a discovery that failed. The error tells an
// API server that can't be reached from one that answers with an error.
func unreachable(host string, err error) error {
	var netErr net.Error
	var urlErr *url.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &netErr) || errors.As(err, &urlErr) {
		return fmt.Errorf("API server %s can't be reached: %w; check that it runs and that the kubeconfig names it", host, err)
	}
	return fmt.Errorf("API server %s: discovery: %w", host, err)
}

// Forbidden adds to a refusal by RBAC the rule that would have allowed verb on
// this type. It returns any other error as it is, and also a refusal that already
// names a rule.
func Forbidden(k *Kind, verb string, err error) error {
	if _, ok := errors.AsType[*apierror.ForbiddenError](err); ok || !apierrors.IsForbidden(err) {
		return err
	}
	return &apierror.ForbiddenError{Err: err, Rule: k.Rule(verb)}
}
