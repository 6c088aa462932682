package storm

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// kindsOf returns what the API server serves: the types of the operator and of the scenario.
func kindsOf(cfg config.Operator, h handler.Handler, s *Scenario) ([]fakeapi.Kind, error) {
	planner, err := reconcile.NewOfflinePlanner(defaults.Apply(cfg), h)
	if err != nil {
		return nil, err
	}
	bundled, err := definitionsOf(cfg.CRDs, "config.Operator")
	if err != nil {
		return nil, err
	}
	given, err := definitionsOf(s.definitions, "scenario")
	if err != nil {
		return nil, err
	}
	all := []resource.Type{k8s.Lease, cfg.Parent}
	for _, c := range cfg.Children {
		all = append(all, c.Type)
	}
	for _, r := range cfg.Related {
		all = append(all, r.Type)
	}
	all = append(all, s.types()...)
	var out []fakeapi.Kind
	for i, t := range all {
		if slices.Contains(all[:i], t) || t == fakeapi.Events().Type {
			continue
		}
		applies := slices.ContainsFunc(cfg.Children, func(c config.Child) bool { return c.Type == t && c.Strategy == config.Apply })
		k := fakeapi.KindOf(t)
		k.Applies = applies
		namespaced, _ := planner.Namespaced(t)
		plural, _ := meta.UnsafeGuessKindToResource(t.GroupVersionKind())
		k.Plural, k.ClusterScoped = plural.Resource, !namespaced
		for _, m := range cfg.Mappings {
			if m.Type == t && m.Plural != "" {
				k.Plural = m.Plural
			}
		}
		if err := define(&k, append(bundled, given...)); err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// definitionsOf reads CustomResourceDefinitions. where says where they are, for errors.
func definitionsOf(texts [][]byte, where string) (out []*crd.Definition, err error) {
	for _, text := range texts {
		some, err := crd.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: CRDs: %w", where, err)
		}
		out = append(out, some...)
	}
	return out, nil
}

// define takes over what a CustomResourceDefinition says of a kind.
func define(k *fakeapi.Kind, definitions []*crd.Definition) (err error) {
	gvk := k.Type.GroupVersionKind()
	for _, d := range definitions {
		version := d.Version(gvk.Version)
		if d.Group != gvk.Group || d.Kind != gvk.Kind || version == nil {
			continue
		}
		k.Plural, k.ClusterScoped, k.Status = d.Plural, d.ClusterScoped, version.HasStatus
		if k.Schema, err = fakeapi.NewSchema(version.Schema); err != nil {
			return fmt.Errorf("CustomResourceDefinition %s: %w", d.Name, err)
		}
	}
	return nil
}

// kindOf returns the kind of a plural.
func (w *world) kindOf(plural string) string {
	for _, k := range w.kinds {
		if k.Plural == plural {
			return k.Type.Kind
		}
	}
	return strings.TrimSuffix(plural, "s")
}
