package catalog

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

// A Settings holds everything about an operator that a pass doesn't change. It is
// immutable, and all rooms of the engine share it. From pass to pass it stays the
// same but for the schemas in Types.
type Settings struct {
	Config    config.Operator // with every default filled in
	Types     *Catalog
	Mark      string // the key of the annotation on children in which the engine keeps its mark
	Paused    string // the key of the annotation on a parent that stops Sync; its value is then "true"
	Offer     string // the key of the annotation or label with which an object is offered: see config.Child.AdoptOffered
	Finalizer string // the operator's finalizer on parents
	Finalizes bool   // the handler has something to finalize
	Holds     bool   // a parent gets the finalizer: for the handler, or for the sake of its children

	selector labels.Selector // selects parents; nil selects all
}

// NewSettings returns the settings of an operator. cfg must be valid and have its
// defaults filled in. types must be of the same configuration.
func NewSettings(cfg config.Operator, h handler.Handler, types *Catalog) *Settings {
	s := &Settings{
		Config:    cfg,
		Types:     types,
		Mark:      cfg.AppliedAnnotation(),
		Paused:    cfg.PausedAnnotation(),
		Offer:     cfg.AdoptAnnotation(),
		Finalizer: cfg.Domain + "/" + cfg.Name,
		Finalizes: finalizes(cfg.Finalizer, h),
	}
	s.Holds = s.Finalizes || cfg.Teardown == config.TeardownOrdered || slices.ContainsFunc(cfg.Children, func(c config.Child) bool { return c.Retain })
	if cfg.ParentSelector != "" {
		s.selector = parsedSelector(cfg.ParentSelector)
	}
	return s
}

// WithTypes returns the settings with another catalog, of the same configuration.
func (s *Settings) WithTypes(types *Catalog) *Settings {
	out := *s
	out.Types = types
	return &out
}

// parsedSelector parses a label selector. An invalid one selects nothing, but
// config.Operator.Validate has refused it before.
func parsedSelector(text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// finalizes says whether a handler has something to finalize. A policy of Always
// or Never decides; otherwise the handler itself says so.
func finalizes(policy config.FinalizerPolicy, h handler.Handler) bool {
	switch policy {
	case config.FinalizerAlways:
		return true
	case config.FinalizerNever:
		return false
	}
	return handler.Finalizes(h)
}

// Selects says whether the ParentSelector matches a parent.
func (s *Settings) Selects(parent *resource.Resource) bool {
	return s.selector == nil || s.selector.Matches(labels.Set(parent.Labels()))
}

// ChildSelector returns the label selector with which children are watched: the
// operator's ownership label, and a tracking label of any value.
func (s *Settings) ChildSelector() string {
	return labels.Set{s.Config.OwnershipLabel: s.Config.Name}.String() + "," + s.Config.TrackingLabel
}

// OwnerReference returns the owner reference that a child of parent gets, as JSON
// values. The caller may change the map.
func (s *Settings) OwnerReference(parent *resource.Resource) map[string]any {
	return map[string]any{
		"apiVersion": parent.Type().APIVersion, "kind": parent.Type().Kind,
		"name": parent.Name(), "uid": string(parent.UID()),
		"controller": true, "blockOwnerDeletion": true,
	}
}

// WithoutOurs returns the finalizers held without that of this operator and those
// of its earlier builds (config.Operator.FormerFinalizers). It overwrites held.
func (s *Settings) WithoutOurs(held []string) []string {
	return slices.DeleteFunc(held, func(f string) bool {
		return f == s.Finalizer || slices.Contains(s.Config.FormerFinalizers, f)
	})
}

// WantedFinalizers returns the finalizers that a parent has to have while it isn't
// being deleted, given those that it holds. This operator's finalizer is among
// them if there is something to finalize, or children aren't left to the garbage collector. Those of earlier builds never are. It
// leaves held unchanged.
func (s *Settings) WantedFinalizers(held []string) []string {
	held = slices.DeleteFunc(slices.Clone(held), func(f string) bool {
		return f != s.Finalizer && slices.Contains(s.Config.FormerFinalizers, f)
	})
	switch has := slices.Contains(held, s.Finalizer); {
	case s.Holds && !has:
		return append(held, s.Finalizer)
	case !s.Holds && has:
		return slices.DeleteFunc(held, func(f string) bool { return f == s.Finalizer })
	}
	return held
}
