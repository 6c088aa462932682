package client

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/revision"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// bodySize is the capacity with which a body begins, in bytes: most need no more.
const bodySize = 1 << 10

// A Client sends the requests of one operator to the API server. Its methods may be
// called concurrently.
//
// Errors of the API server are such that the functions of apierrors apply. If RBAC
// forbids a request, the errors of Get and of all writes also name the missing rule.
// The errors of requests about Secrets may be shown to anybody: see failures.go.
type Client struct {
	rest         rest.Interface
	params       runtime.ParameterCodec
	fieldManager string
	agent        string // the User-Agent of each request; empty: the transport sets it
	log          *slog.Logger
	metrics      *observe.Metrics                                         // nil: nothing is counted
	observed     *observing                                               // what is kept of the objects that lists and watches deliver
	warnings     warnings                                                 // of the API server
	readOnly     bool                                                     // see ReadOnly
	division     *division                                                // nil: the parents aren't divided
	storage      *revision.Storage                                        // the link's
	begin        func(Write) (end func(live *resource.Resource, ok bool)) // see Track
	listedAt     atomic.Int64                                             // when the last page of a list arrived, in ns since 1970; 0: none has
	// dial returns a REST client that decodes what it gets in this way.
	dial func(wireSerializer) (rest.Interface, error)
}

// New returns a client for the requests of an operator, which is the field manager
// of its writes. httpClient is that of l.As. m counts dry runs; it may be nil. New
// makes no request.
func New(l *Link, httpClient *http.Client, operator string, m *observe.Metrics, log *slog.Logger) (*Client, error) {
	cfg := rest.CopyConfig(l.Config)
	observed := &observing{held: heldFields{manager: operator}}
	observed.held.wanted.Store(true)
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	cfg.WarningHandler = rest.NoWarnings{} // Client.warn tells of them, each once
	dial := func(decoded wireSerializer) (rest.Interface, error) {
		cfg := rest.CopyConfig(cfg)
		cfg.NegotiatedSerializer = decoded
		rc, err := rest.UnversionedRESTClientForConfigAndClient(cfg, httpClient)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		return rc, nil
	}
	rc, err := dial(wireSerializer{observed: observed})
	if err != nil {
		return nil, err
	}
	c := &Client{dial: dial, rest: rc, params: runtime.NewParameterCodec(metaScheme()), fieldManager: operator, log: log, metrics: m, observed: observed, storage: l.Storage}
	if cfg.UserAgent == "" {
		c.agent = userAgent(operator)
	}
	return c, nil
}

// DropHeldFields says that nobody needs WireObject.HeldFields any more: they are for
// the first lists. Objects that are read from now on come without.
func (c *Client) DropHeldFields() { c.observed.held.wanted.Store(false) }

// Shorten has lists and watches pass on what shorten makes of each object. It must be
// called before the first request, with a function that may be called concurrently.
func (c *Client) Shorten(shorten func(*resource.Resource) *resource.Resource) {
	c.observed.shorten = shorten
}

// ReadOnly has every write and every dry run fail with an apierror.NotTriedError, before
// anything is sent. It must be called before the first request.
func (c *Client) ReadOnly() { c.readOnly = true }

// about begins a request about one object, or a subresource of it (empty: the object
// itself). A key that can't be part of a path is the error of the request, which isn't
// sent: names come from objects that anybody may have written.
func (c *Client) about(verb string, k *catalog.Kind, key types.NamespacedName, subresource string) *rest.Request {
	req := c.among(verb, k, key.Namespace).Name(key.Name)
	if subresource != "" {
		req = req.SubResource(subresource)
	}
	return req
}

// among begins a request about the objects of a type in a namespace (empty: in all). It
// sets the User-Agent, although the transport would do so too: the transport would have
// to copy the request for it.
func (c *Client) among(verb string, k *catalog.Kind, namespace string) *rest.Request {
	through := c.rest
	if c.shardOf(k.Type).Divides() {
		through = c.division.rest
	}
	req := through.Verb(verb).AbsPath(k.APIPath()).Resource(k.GVR.Resource)
	if k.Namespaced && namespace != "" {
		req = req.Namespace(namespace)
	}
	if c.agent != "" {
		req.SetHeader("User-Agent", c.agent)
	}
	return req
}

// do sends a request. client-go logs neither its body nor that of the answer.
func (c *Client) do(ctx context.Context, req *rest.Request) rest.Result {
	return req.Do(WithoutBodies(ctx))
}

// BodyOf returns the JSON of an object, as a request carries it.
func BodyOf(object any) ([]byte, error) {
	body, err := jsonvalue.Append(make([]byte, 0, bodySize), object)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return body, nil
}

// bodyOf is BodyOf for a write, which only fails if nothing may be written.
func (c *Client) bodyOf(object any) ([]byte, error) {
	if c.readOnly {
		return nil, apierror.NotTriedError{}
	}
	return BodyOf(object)
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, k *catalog.Kind, key types.NamespacedName) (*resource.Resource, error) {
	return c.send(ctx, k, asked(k, "get", key.Name, "", nil), c.about(http.MethodGet, k, key, ""), nil)
}

// Create creates an object, and returns it as the API server has stored it.
func (c *Client) Create(ctx context.Context, k *catalog.Kind, key types.NamespacedName, object any) (*resource.Resource, error) {
	body, err := c.bodyOf(object)
	if err != nil {
		return nil, err
	}
	send := func() (*resource.Resource, error) {
		return c.send(ctx, k, asked(k, "create", "", "", body), c.write(c.among(http.MethodPost, k, key.Namespace), false).Body(body), writeOf(k, key, false, false))
	}
	return c.comparing(k, "", send)
}

// ManagedFields reads the metadata of an object, with the managedFields that a
// resource.Resource leaves out.
func (c *Client) ManagedFields(ctx context.Context, k *catalog.Kind, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	res := c.do(ctx, c.about(http.MethodGet, k, key, "").SetHeader("Accept", metadataOnly))
	raw, err := rawOf(k, asked(k, "get", key.Name, "", nil), res)
	if err != nil {
		return nil, err
	}
	var live metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &live); err != nil {
		return nil, fmt.Errorf("managedFields: %w", malformed(k, err))
	}
	if err := checkObject(live.Kind); err != nil {
		return nil, fmt.Errorf("managedFields: %w", err)
	}
	return &live, nil
}

// DryCreate returns the object that a create would store, and stores nothing. The
// result has no resourceVersion, so it isn't a resource.Resource.
func (c *Client) DryCreate(ctx context.Context, k *catalog.Kind, namespace string, object any) (map[string]any, error) {
	body, err := c.bodyOf(object)
	if err != nil {
		return nil, err
	}
	c.metrics.Tried(k.Type)
	res := c.do(ctx, c.write(c.among(http.MethodPost, k, namespace), true).Body(body))
	what := asked(k, "create", "", "", body)
	c.warn(ctx, k, what, res, false)
	raw, err := rawOf(k, what, res)
	if err != nil {
		return nil, err
	}
	var made map[string]any
	if err := kjson.Unmarshal(raw, &made); err != nil {
		return nil, malformed(k, err)
	}
	kind, _ := made["kind"].(string)
	return made, checkObject(kind)
}

// Update replaces an object, or a subresource of it (empty: the object itself). If
// the resourceVersion of object isn't the current one, the API server answers with
// a conflict. With dryRun, nothing is stored.
func (c *Client) Update(ctx context.Context, k *catalog.Kind, key types.NamespacedName, subresource string, object any, dryRun bool) (*resource.Resource, error) {
	body, err := c.bodyOf(object)
	if err != nil {
		return nil, err
	}
	if dryRun {
		c.metrics.Tried(k.Type)
	}
	send := func() (*resource.Resource, error) {
		return c.send(ctx, k, asked(k, "update", key.Name, subresource, body), c.write(c.about(http.MethodPut, k, key, subresource), dryRun).Body(body), writeOf(k, key, true, dryRun))
	}
	if version := versionIn(object); version != "" && !dryRun {
		return c.comparing(k, version, send)
	}
	return send()
}

// Patch patches an object, and returns it as the API server has stored it. An apply
// patch (server-side apply) is forced: it takes over fields of other managers.
func (c *Client) Patch(ctx context.Context, k *catalog.Kind, key types.NamespacedName, pt types.PatchType, body []byte) (*resource.Resource, error) {
	return c.patchOrTry(ctx, k, key, pt, body, false)
}

// DryPatch returns the object that Patch would store, and stores nothing.
func (c *Client) DryPatch(ctx context.Context, k *catalog.Kind, key types.NamespacedName, pt types.PatchType, body []byte) (*resource.Resource, error) {
	return c.patchOrTry(ctx, k, key, pt, body, true)
}

// DryPatchAs is DryPatch as another field manager.
func (c *Client) DryPatchAs(ctx context.Context, k *catalog.Kind, key types.NamespacedName, pt types.PatchType, body []byte, manager string) (*resource.Resource, error) {
	return c.patchAs(ctx, k, key, pt, body, manager, true)
}

func (c *Client) patchOrTry(ctx context.Context, k *catalog.Kind, key types.NamespacedName, pt types.PatchType, body []byte, dryRun bool) (*resource.Resource, error) {
	return c.patchAs(ctx, k, key, pt, body, c.fieldManager, dryRun)
}

func (c *Client) patchAs(ctx context.Context, k *catalog.Kind, key types.NamespacedName, pt types.PatchType, body []byte, manager string, dryRun bool) (*resource.Resource, error) {
	if c.readOnly {
		return nil, apierror.NotTriedError{}
	}
	if dryRun {
		c.metrics.Tried(k.Type)
	}
	what := asked(k, "patch", key.Name, "", body)
	req := writeAs(manager, c.about(http.MethodPatch, k, key, "").SetHeader("Content-Type", string(pt)), dryRun)
	if pt == types.ApplyYAMLPatchType {
		req = req.Param("force", "true")
		what.Applies = true
	}
	return c.send(ctx, k, what, req.Body(body), writeOf(k, key, false, dryRun))
}

// Delete deletes the object with this UID, if it has this resourceVersion, unless that is
// empty; it is a conflict if it hasn't. Its dependents are deleted in the
// background. Delete returns the object's state if the object still has to be
// finalized, nil if it is gone.
func (c *Client) Delete(ctx context.Context, k *catalog.Kind, key types.NamespacedName, uid types.UID, version string) (left *resource.Resource, err error) {
	if c.readOnly {
		return nil, apierror.NotTriedError{}
	}
	only := &metav1.Preconditions{UID: &uid}
	if version != "" {
		only.ResourceVersion = &version
	}
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     only,
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	end := c.open(ctx, &Write{Ref: object.Ref{Type: k.Type, Key: key}, Deletes: uid, Guarded: version != ""})
	ok := false
	defer func() { end(left, ok) }()
	res := c.do(ctx, c.about(http.MethodDelete, k, key, "").Body(body))
	raw, err := rawOf(k, asked(k, "delete", key.Name, "", nil), res)
	if err != nil {
		return nil, err
	}
	if err := checkAnswer(raw); err != nil {
		return nil, err
	}
	// The answer differs between types: a Status, the last state of an object that
	// is gone, or the state of one that remains. Only an object that remains has a
	// deletionTimestamp.
	ok = true
	if live, err := resource.New(raw); err == nil && live.UID() == uid && live.IsDeleting() {
		return live, nil
	}
	return nil, nil
}

// write adds the parameters of a write to a request.
func (c *Client) write(req *rest.Request, dryRun bool) *rest.Request {
	return writeAs(c.fieldManager, req, dryRun)
}

// writeAs is write for a field manager.
func writeAs(manager string, req *rest.Request, dryRun bool) *rest.Request {
	req = req.Param("fieldManager", manager)
	if dryRun {
		req = req.Param("dryRun", metav1.DryRunAll)
	}
	return req
}

// send sends a request about one object, which asks for what, and returns the object in
// the answer. w is nil if it can't change the object.
func (c *Client) send(ctx context.Context, k *catalog.Kind, what apierror.Request, req *rest.Request, w *Write) (live *resource.Resource, err error) {
	end := c.open(ctx, w)
	defer func() { end(live, live != nil) }()
	res := c.do(ctx, req)
	c.warn(ctx, k, what, res, w != nil)
	raw, err := rawOf(k, what, res)
	if err != nil {
		return nil, err
	}
	return resource.New(raw)
}

// rawOf returns the body of the answer to a request.
func rawOf(k *catalog.Kind, what apierror.Request, res rest.Result) ([]byte, error) {
	if err := res.Error(); err != nil { // the error of Raw would say less
		return nil, failed(k, what, err)
	}
	raw, err := res.Raw()
	return raw, failed(k, what, err)
}
