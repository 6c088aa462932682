package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/jsonvalue"
)

const (
	definitionsPath = "/apis/" + crd.APIVersion
	resourceName    = "customresourcedefinitions"
)

// A Room installs and migrates the definitions of one operator. Its methods may be called
// concurrently.
type Room struct {
	rest    rest.Interface
	manager string // of the fields that Install writes
	history string // the key of the annotation that tells what builds have installed
	log     *slog.Logger
}

// New returns a room. operator is the operator's name, domain its Domain. It makes no request.
func New(l *client.Link, operator, domain string, log *slog.Logger) (*Room, error) {
	cfg := rest.CopyConfig(l.Config)
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	rc, err := rest.UnversionedRESTClientForConfigAndClient(cfg, l.As(operator, nil))
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Room{rest: rc, manager: operator, history: domain + "/crd-history", log: log}, nil
}

// object sends a request and returns the object in the answer.
func object(ctx context.Context, req *rest.Request) (map[string]any, error) {
	res := req.Do(ctx)
	if err := res.Error(); err != nil {
		return nil, err
	}
	raw, err := res.Raw()
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := kjson.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	return out, nil
}

// request begins a request about a definition; an empty name stands for all.
func (r *Room) request(verb, name string) *rest.Request {
	req := r.rest.Verb(verb).AbsPath(definitionsPath).Resource(resourceName)
	if name != "" {
		req = req.Name(name)
	}
	return req
}

// get reads a definition. It returns nil if there is none.
func (r *Room) get(ctx context.Context, name string) (*installed, error) {
	found, err := object(ctx, r.request(http.MethodGet, name))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	}
	return &installed{Definition: crd.Of(found), object: found}, nil
}

// create creates a definition, whose fields are this operator's as if they had been applied.
func (r *Room) create(ctx context.Context, wanted map[string]any, dryRun bool) error {
	body, err := jsonvalue.Append(nil, wanted)
	if err != nil {
		return err
	}
	made, err := object(ctx, r.write(http.MethodPost, "", dryRun).Body(body))
	if err != nil || dryRun {
		return err
	}
	if err := r.claim(ctx, &installed{Definition: crd.Of(made), object: made}); apierrors.IsForbidden(err) {
		return err
	}
	return nil // who couldn't be asked for a moment is asked by the next write
}

// claim makes the fields that this operator has created such that it has applied. Only so
// does a later apply remove what it leaves out.
func (r *Room) claim(ctx context.Context, live *installed) error {
	for range tries { // the API server writes the status at the same time
		change := r.claims(live)
		if change == nil {
			return nil
		}
		body, err := jsonvalue.Append(nil, []any{
			map[string]any{"op": "test", "path": "/metadata/resourceVersion", "value": live.metadata()["resourceVersion"]}, change,
		})
		if err != nil {
			return err
		}
		_, err = object(ctx, r.write(http.MethodPatch, live.Name, false).SetHeader("Content-Type", string(types.JSONPatchType)).Body(body))
		if !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
			return err
		}
		if live, err = r.get(ctx, live.Name); err != nil || live == nil {
			return err
		}
	}
	return nil // the next write claims them
}

// claims returns the operation of a JSON patch that has the operator's fields as applied
// ones, nil if they are. Those that it has applied already aren't created ones any more.
func (r *Room) claims(live *installed) map[string]any {
	managers, _ := live.metadata()["managedFields"].([]any)
	created, applied := -1, false
	for i, m := range managers {
		entry, _ := m.(map[string]any)
		switch {
		case entry["manager"] != r.manager || entry["subresource"] != nil:
		case entry["operation"] == "Apply":
			applied = true
		default:
			created = i
		}
	}
	path := fmt.Sprintf("/metadata/managedFields/%d", created)
	switch {
	case created < 0:
		return nil
	case applied:
		return map[string]any{"op": "remove", "path": path}
	}
	return map[string]any{"op": "replace", "path": path + "/operation", "value": "Apply"}
}

// apply applies a definition. force takes fields from other managers.
func (r *Room) apply(ctx context.Context, name string, wanted map[string]any, dryRun, force bool) (map[string]any, error) {
	body, err := jsonvalue.Append(nil, wanted)
	if err != nil {
		return nil, err
	}
	req := r.write(http.MethodPatch, name, dryRun).SetHeader("Content-Type", string(types.ApplyYAMLPatchType)).Body(body)
	if force {
		req = req.Param("force", "true")
	}
	return object(ctx, req)
}

// write begins a write about a definition. An unknown field is an error.
func (r *Room) write(verb, name string, dryRun bool) *rest.Request {
	req := r.request(verb, name).Param("fieldManager", r.manager).Param("fieldValidation", "Strict")
	if dryRun {
		req = req.Param("dryRun", "All")
	}
	return req
}

// An installed is a definition as the API server has it.
type installed struct {
	*crd.Definition
	object map[string]any
}

func (l *installed) metadata() map[string]any {
	m, _ := l.object["metadata"].(map[string]any)
	return m
}

// deleting says whether somebody has deleted it. It stays until its objects are gone.
func (l *installed) deleting() bool { return l.metadata()["deletionTimestamp"] != nil }

// written returns when something but its status was written last, as far as it tells.
func (l *installed) written() (last time.Time) {
	managers, _ := l.metadata()["managedFields"].([]any)
	for _, m := range managers {
		entry, _ := m.(map[string]any)
		text, _ := entry["time"].(string)
		if at, err := time.Parse(time.RFC3339, text); err == nil && entry["subresource"] == nil && at.After(last) {
			last = at
		}
	}
	return last
}

func (l *installed) annotation(key string) string {
	annotations, _ := l.metadata()["annotations"].(map[string]any)
	value, _ := annotations[key].(string)
	return value
}

func (l *installed) status() map[string]any {
	m, _ := l.object["status"].(map[string]any)
	return m
}

// stored returns the versions in which objects may be stored.
func (l *installed) stored() []string {
	var out []string
	versions, _ := l.status()["storedVersions"].([]any)
	for _, v := range versions {
		if name, ok := v.(string); ok {
			out = append(out, name)
		}
	}
	return out
}

// condition returns the status and the message of a condition.
func (l *installed) condition(name string) (status, message string) {
	conditions, _ := l.status()["conditions"].([]any)
	for _, c := range conditions {
		if fields, _ := c.(map[string]any); fields["type"] == name {
			status, _ = fields["status"].(string)
			message, _ = fields["message"].(string)
		}
	}
	return status, message
}

// decode reads the answer to a request.
func decode(res rest.Result, into any) error {
	raw, err := res.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}
