package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// maxWarnings bounds how many distinct warnings of the API server are
// remembered, so as to log each once.
const maxWarnings = 1000

// bodySize is how much most bodies take.
const bodySize = 1 << 10

// A client sends requests to the API server. It deals in JSON as it comes
// over the wire, so that nothing is decoded that nobody asked for. It is safe
// for concurrent use.
type client struct {
	rest         rest.Interface
	params       runtime.ParameterCodec
	fieldManager string
	agent        string // empty: the transport says who asks
	log          *slog.Logger
	metrics      *metrics // nil: nothing is counted

	mu struct {
		sync.Mutex
		warned map[string]struct{} // child type + warning text
	}
}

// newClient returns a client for the API server of cfg. There is no
// client-side rate limit unless cfg sets one: API priority and fairness rules.
func newClient(cfg *rest.Config, httpClient *http.Client, fieldManager string, log *slog.Logger) (*client, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	cfg.NegotiatedSerializer = wireSerializer{}
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	cfg.WarningHandler = rest.NoWarnings{} // client.send logs them, each once
	rc, err := rest.UnversionedRESTClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := &client{rest: rc, params: runtime.NewParameterCodec(metaScheme()), fieldManager: fieldManager, log: log}
	c.mu.warned = map[string]struct{}{}
	if cfg.UserAgent == "" {
		c.agent = userAgent(fieldManager)
	}
	return c, nil
}

// request begins a request. It says who asks, though the transport would: that
// would have to copy the request.
func (c *client) request(verb string) *rest.Request {
	req := c.rest.Verb(verb)
	if c.agent != "" {
		req.SetHeader("User-Agent", c.agent)
	}
	return req
}

// do sends a request, of which client-go logs no body.
func (c *client) do(ctx context.Context, req *rest.Request) rest.Result {
	return req.Do(withoutBodies(ctx))
}

// bodyOf returns an object as it is sent.
func bodyOf(object any) ([]byte, error) {
	body, err := jsonvalue.Append(make([]byte, 0, bodySize), object)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return body, nil
}

// path returns the URL path of a collection (name empty) or an object.
func (k *kind) path(namespace, name, subresource string) []string {
	var p []string
	if k.gvr.Group == "" {
		p = append(p, "/api", k.gvr.Version)
	} else {
		p = append(p, "/apis", k.gvr.Group, k.gvr.Version)
	}
	if k.namespaced && namespace != "" {
		p = append(p, "namespaces", namespace)
	}
	p = append(p, k.gvr.Resource)
	if name != "" {
		p = append(p, name)
	}
	if subresource != "" {
		p = append(p, subresource)
	}
	return p
}

func (c *client) get(ctx context.Context, k *kind, key types.NamespacedName) (*resource.Resource, error) {
	return c.send(ctx, k, c.request(http.MethodGet).AbsPath(k.path(key.Namespace, key.Name, "")...))
}

func (c *client) create(ctx context.Context, k *kind, namespace string, object any) (*resource.Resource, error) {
	body, err := bodyOf(object)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, k, c.write(c.request(http.MethodPost), false).AbsPath(k.path(namespace, "", "")...).Body(body))
}

// dryCreate returns what a create would make of an object. It isn't a resource,
// as it has no resourceVersion.
func (c *client) dryCreate(ctx context.Context, k *kind, namespace string, object any) (map[string]any, error) {
	body, err := bodyOf(object)
	if err != nil {
		return nil, err
	}
	c.metrics.tried(k.Type)
	res := c.do(ctx, c.write(c.request(http.MethodPost), true).AbsPath(k.path(namespace, "", "")...).Body(body))
	c.warn(ctx, k, res)
	if err := res.Error(); err != nil { // Raw would say less of it
		return nil, withRule(err)
	}
	raw, err := res.Raw()
	if err != nil {
		return nil, err
	}
	var made map[string]any
	if err := kjson.Unmarshal(raw, &made); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return made, nil
}

// update replaces an object, or its subresource, under the resourceVersion
// that object carries.
func (c *client) update(ctx context.Context, k *kind, key types.NamespacedName, subresource string, object any, dryRun bool) (*resource.Resource, error) {
	body, err := bodyOf(object)
	if err != nil {
		return nil, err
	}
	if dryRun {
		c.metrics.tried(k.Type)
	}
	return c.send(ctx, k, c.write(c.request(http.MethodPut), dryRun).AbsPath(k.path(key.Namespace, key.Name, subresource)...).Body(body))
}

func (c *client) patch(ctx context.Context, k *kind, key types.NamespacedName, pt types.PatchType, body []byte) (*resource.Resource, error) {
	return c.patchOrTry(ctx, k, key, pt, body, false)
}

// dryPatch returns what a patch would make of an object.
func (c *client) dryPatch(ctx context.Context, k *kind, key types.NamespacedName, pt types.PatchType, body []byte) (*resource.Resource, error) {
	return c.patchOrTry(ctx, k, key, pt, body, true)
}

func (c *client) patchOrTry(ctx context.Context, k *kind, key types.NamespacedName, pt types.PatchType, body []byte, dryRun bool) (*resource.Resource, error) {
	if dryRun {
		c.metrics.tried(k.Type)
	}
	req := c.write(c.request(http.MethodPatch).SetHeader("Content-Type", string(pt)), dryRun)
	if pt == types.ApplyYAMLPatchType {
		req = req.Param("force", "true")
	}
	return c.send(ctx, k, req.AbsPath(k.path(key.Namespace, key.Name, "")...).Body(body))
}

// delete deletes the object with this UID in the background. It returns the
// object as it stands while it is being deleted, nil if it is gone.
func (c *client) delete(ctx context.Context, k *kind, key types.NamespacedName, uid types.UID) (*resource.Resource, error) {
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	res := c.do(ctx, c.request(http.MethodDelete).AbsPath(k.path(key.Namespace, key.Name, "")...).Body(body))
	if err := res.Error(); err != nil {
		return nil, withRule(err)
	}
	raw, err := res.Raw()
	if err != nil {
		return nil, err
	}
	// Types differ in what they answer: a Status, the object that was, or the
	// object that remains. Only the latter has a deletionTimestamp.
	if left, err := resource.New(raw); err == nil && left.UID() == uid && left.IsDeleting() {
		return left, nil
	}
	return nil, nil
}

func (c *client) write(req *rest.Request, dryRun bool) *rest.Request {
	req = req.Param("fieldManager", c.fieldManager)
	if dryRun {
		req = req.Param("dryRun", metav1.DryRunAll)
	}
	return req
}

func (c *client) send(ctx context.Context, k *kind, req *rest.Request) (*resource.Resource, error) {
	res := c.do(ctx, req)
	c.warn(ctx, k, res)
	if err := res.Error(); err != nil {
		return nil, withRule(err)
	}
	raw, err := res.Raw()
	if err != nil {
		return nil, err
	}
	return resource.New(raw)
}

// warn logs the warnings that came with an answer, each text once per type.
func (c *client) warn(ctx context.Context, k *kind, res rest.Result) {
	for _, w := range res.Warnings() {
		id := k.Type.String() + "\x00" + w.Text
		c.mu.Lock()
		_, known := c.mu.warned[id]
		if !known && len(c.mu.warned) < maxWarnings {
			c.mu.warned[id] = struct{}{}
		}
		c.mu.Unlock()
		if !known {
			text := w.Text
			if k.secret() {
				text = "(hidden, since it may quote a Secret)"
			}
			c.log.WarnContext(ctx, "API server warned about a request", "type", k.Type.String(), "warning", text)
		}
	}
}

func (c *client) list(ctx context.Context, k *kind, namespace string, opts metav1.ListOptions) (*wireList, error) {
	res := c.do(ctx, c.request(http.MethodGet).AbsPath(k.path(namespace, "", "")...).SpecificallyVersionedParams(&opts, c.params, schema.GroupVersion{Version: "v1"}))
	if err := res.Error(); err != nil {
		return nil, err
	}
	raw, err := res.Raw()
	if err != nil {
		return nil, err
	}
	return decodeList(k.Type, raw)
}

func (c *client) watch(ctx context.Context, k *kind, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return c.request(http.MethodGet).AbsPath(k.path(namespace, "", "")...).SpecificallyVersionedParams(&opts, c.params, schema.GroupVersion{Version: "v1"}).Watch(withoutBodies(ctx))
}
