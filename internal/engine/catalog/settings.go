package catalog

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

// A Settings holds what decides about every pass of an operator and never
// changes while it runs. It is immutable, and shared by all rooms of the engine.
type Settings struct {
	Config    config.Operator // with every default filled in
	Types     *Catalog
	Mark      string // the annotation on children that holds the engine's mark
	Paused    string // the annotation on parents that stops Sync
	Finalizer string // this operator's finalizer on parents
	Finalizes bool   // the handler has something to finalize

	selector labels.Selector // of the parents; nil selects all
}

// NewSettings returns the settings of an operator. cfg has its defaults.
func NewSettings(cfg config.Operator, h handler.Handler, types *Catalog) *Settings {
	s := &Settings{
		Config:    cfg,
		Types:     types,
		Mark:      cfg.Domain + "/applied",
		Paused:    cfg.Domain + "/paused",
		Finalizer: cfg.Domain + "/" + cfg.Name,
		Finalizes: finalizes(cfg.Finalizer, h),
	}
	if cfg.ParentSelector != "" {
		s.selector = parsedSelector(cfg.ParentSelector)
	}
	return s
}

// parsedSelector returns a label selector. An invalid one, which
// config.Operator.Validate refuses, selects nothing.
func parsedSelector(text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// finalizes says whether a handler has something to finalize: what the policy
// says, else what the handler itself says.
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

// ChildSelector returns the label selector with which children are watched.
func (s *Settings) ChildSelector() string {
	return labels.Set{s.Config.OwnershipLabel: s.Config.Name}.String() + "," + s.Config.TrackingLabel
}

// OwnerReference returns the owner reference that a child of parent gets.
func (s *Settings) OwnerReference(parent *resource.Resource) map[string]any {
	return map[string]any{
		"apiVersion": parent.Type().APIVersion, "kind": parent.Type().Kind,
		"name": parent.Name(), "uid": string(parent.UID()),
		"controller": true, "blockOwnerDeletion": true,
	}
}

// WithoutOurs returns finalizers without those of this operator and of its
// earlier builds. It may overwrite held.
func (s *Settings) WithoutOurs(held []string) []string {
	return slices.DeleteFunc(held, func(f string) bool {
		return f == s.Finalizer || slices.Contains(s.Config.FormerFinalizers, f)
	})
}

// WantedFinalizers returns what the finalizers of a parent that isn't being
// deleted have to become: with this operator's if there is something to
// finalize, else without, and never with one of an earlier build. It doesn't
// change held.
func (s *Settings) WantedFinalizers(held []string) []string {
	held = slices.DeleteFunc(slices.Clone(held), func(f string) bool {
		return f != s.Finalizer && slices.Contains(s.Config.FormerFinalizers, f)
	})
	switch has := slices.Contains(held, s.Finalizer); {
	case s.Finalizes && !has:
		return append(held, s.Finalizer)
	case !s.Finalizes && has:
		return slices.DeleteFunc(held, func(f string) bool { return f == s.Finalizer })
	}
	return held
}
