package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/roperator/roperator/internal/apischema"
)

// writeDemands writes the table of package apischema: which required fields and which enums
// of OpenAPI an API server enforces. OpenAPI says of more fields that they are required than
// are: a server can't tell a field that is missing from one that is zero, and accepts many
// zeros. So the server is asked, in each place of each kind where there is such a field,
// with an object that lacks the field, or has another value. What it doesn't complain of
// everywhere is left out.
func writeDemands(server *rest.Config, path string) error {
	client, all, err := discover(server)
	if err != nil {
		return err
	}
	schemas, err := fetchSchemas(client)
	if err != nil {
		return err
	}
	info, err := client.ServerVersion()
	if err != nil {
		return err
	}
	table := apischema.Table{Kubernetes: info.GitVersion, Models: map[string]apischema.Model{}}
	var places []place
	for _, s := range all {
		root := rootOf(schemas, s.Type.GroupVersionKind())
		if root == "" {
			return fmt.Errorf("%s: no schema", s.Type)
		}
		table.Kinds = append(table.Kinds, s.Type.String())
		places = append(places, findPlaces(schemas, s, root)...)
	}
	slices.Sort(table.Kinds)
	if err := ask(server, schemas, places); err != nil {
		return err
	}
	for key, except := range heeded(places) {
		model := table.Models[key.model]
		if model == nil {
			model = apischema.Model{}
			table.Models[key.model] = model
		}
		demand := model[key.field]
		if key.enum {
			demand.Enum, demand.EnumExcept = enumOf(propertyOf(schemas[key.model], key.field)), except
		} else {
			demand.Required, demand.RequiredExcept = true, except
		}
		model[key.field] = demand
	}
	text, err := table.Encode()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// A demand is that a field of a schema is there, or that it has one of the values of its enum.
type demand struct {
	model, field string
	enum         bool
}

// A place is where a field with a demand is in the objects of a kind.
type place struct {
	demand
	kind served
	root string   // the name of the kind's schema
	path []string // names of fields, itemStep for a list's items and valueStep for a map's values
	via  []string // the fields on the way to the schema, each as apischema.FieldName says it
	met  bool     // the server refuses an object that doesn't heed the demand here
}

// noValue is in no enum. The server says it when it refuses the value.
const noValue = "NotInTheEnum"

const (
	itemStep  = "[0]"
	valueStep = "[a]"
)

// findPlaces returns the places of a kind, but for those in the status, which isn't written
// along with an object, and in metadata, which the engine cares for.
func findPlaces(schemas map[string]map[string]any, kind served, root string) []place {
	f := finder{schemas: schemas, kind: kind, root: root}
	f.model(root, nil, nil, nil)
	return f.found
}

// A finder finds the places of one kind.
type finder struct {
	schemas map[string]map[string]any
	kind    served
	root    string
	found   []place
}

// model adds the places in a schema that is at path. within are the schemas around it, of
// which none is entered again.
func (f *finder) model(name string, path, via, within []string) {
	if slices.Contains(within, name) {
		return
	}
	within = append(slices.Clip(within), name)
	schema := f.schemas[name]
	required := stringsOf(schema["required"])
	for _, field := range slices.Sorted(maps.Keys(propertiesOf(schema))) {
		if field == "metadata" || len(path) == 0 && field == "status" {
			continue
		}
		p := place{demand: demand{model: name, field: field}, kind: f.kind, root: f.root, path: append(slices.Clip(path), field), via: via}
		if slices.Contains(required, field) {
			f.found = append(f.found, p)
		}
		property := propertyOf(schema, field)
		if len(enumOf(property)) > 0 {
			p.enum = true
			f.found = append(f.found, p)
		}
		f.property(property, p.path, append(slices.Clip(via), apischema.FieldName(name, field)), within)
	}
}

// property adds the places in what a field, a list's items or a map's values may be.
func (f *finder) property(schema map[string]any, path, via, within []string) {
	if name := refOf(schema); name != "" {
		f.model(name, path, via, within)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		f.property(items, append(slices.Clip(path), itemStep), via, within)
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		f.property(values, append(slices.Clip(path), valueStep), via, within)
	}
}

// ask finds out in which places the server heeds the demands.
func ask(server *rest.Config, schemas map[string]map[string]any, places []place) error {
	config := rest.CopyConfig(server)
	config.QPS, config.WarningHandlerWithContext = -1, rest.NoWarnings{}
	client, err := rest.UnversionedRESTClientFor(rawConfig(config))
	if err != nil {
		return err
	}
	errs := make([]error, len(places))
	workqueue.ParallelizeUntil(context.Background(), 8, len(places), func(i int) {
		p := &places[i]
		breaches := p.breaches(schemas)
		p.met = len(breaches) > 0
		for _, object := range breaches {
			refused, err := refuses(client, p, object)
			if err != nil {
				errs[i] = fmt.Errorf("%s: %s: %w", p.kind.Type, fieldPath(p.path), err)
			}
			p.met = p.met && refused
		}
	})
	return errors.Join(errs...)
}

// breaches returns objects that don't heed the demand in a place, and are as valid as their
// schema tells otherwise. The server has to refuse all of them.
func (p *place) breaches(schemas map[string]map[string]any) []map[string]any {
	b := builder{schemas: schemas}
	property := propertyOf(schemas[p.model], p.field)
	var values []any
	switch {
	case p.enum && property["type"] == "array":
		values = []any{[]any{noValue}, []any{"example.com/" + noValue}}
	case p.enum:
		values = []any{noValue, "example.com/" + noValue}
	default:
		values = []any{absent{}}
		if empty := emptyOf(schemas, property); empty != nil {
			values = append(values, empty)
		}
	}
	var out []map[string]any
	for _, value := range values {
		object := b.object(p.root, p.path, value)
		gvk := p.kind.Type.GroupVersionKind()
		object["apiVersion"], object["kind"] = gvk.GroupVersion().String(), gvk.Kind
		object["metadata"] = map[string]any{"name": "a"}
		out = append(out, object)
	}
	return out
}

// refuses says whether the server refuses to create an object because of the field in the
// place. An answer that says nothing about the field is no refusal.
func refuses(client rest.Interface, p *place, object map[string]any) (bool, error) {
	gvk := p.kind.Type.GroupVersionKind()
	url := "/apis/" + gvk.Group + "/" + gvk.Version
	if gvk.Group == "" {
		url = "/api/" + gvk.Version
	}
	if !p.kind.ClusterScoped {
		url += "/namespaces/default"
	}
	body, err := marshal(object)
	if err != nil {
		return false, err
	}
	err = client.Post().AbsPath(url+"/"+p.kind.Plural).Param("dryRun", "All").Param("fieldValidation", "Strict").
		SetHeader("Content-Type", "application/json").Body(body).Do(context.Background()).Error()
	var status apierrors.APIStatus
	if err == nil {
		return false, nil
	}
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) {
		return false, err // that is no opinion: another run would have another result
	}
	if status.Status().Details == nil {
		return false, nil
	}
	want := fieldPath(p.path)
	for _, cause := range status.Status().Details.Causes {
		rest, within := strings.CutPrefix(cause.Field, want)
		within = within && (rest == "" || rest[0] == '.' || rest[0] == '[')
		if within && !p.enum || p.enum && strings.Contains(cause.Message, noValue) {
			return true, nil
		}
	}
	return false, nil
}

// heeded returns the demands that the server heeds, and for each the fields within which it
// may not: those that are on the way to every place where it doesn't, and to no place where it
// does. A demand for which there are no such fields is left out.
func heeded(places []place) map[demand][]string {
	met, unmet := map[demand][]place{}, map[demand][]place{}
	for _, p := range places {
		if p.met {
			met[p.demand] = append(met[p.demand], p)
		} else {
			unmet[p.demand] = append(unmet[p.demand], p)
		}
	}
	out := map[demand][]string{}
	for key, where := range met {
		through := map[string]bool{}
		for _, p := range where {
			for _, field := range p.via {
				through[field] = true
			}
		}
		except, ok := map[string]bool{}, true
		for _, p := range unmet[key] {
			i := slices.IndexFunc(p.via, func(field string) bool { return !through[field] })
			if ok = ok && i >= 0; ok {
				except[p.via[i]] = true
			}
		}
		if ok {
			out[key] = slices.Sorted(maps.Keys(except))
		}
	}
	return out
}

// fieldPath returns a path as an API server spells it.
func fieldPath(path []string) string {
	var out strings.Builder
	for _, step := range path {
		if out.Len() > 0 && step != itemStep && step != valueStep {
			out.WriteByte('.')
		}
		out.WriteString(step)
	}
	return out.String()
}
