package catalog

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/shard"
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
	// Bucket is the label of children that says of which bucket their parent is. It is set
	// only where parents are divided among replicas.
	Bucket string
	Shard  shard.Shard // the parents that are the operator's
	// FieldSets parses what marks say of the fields that a child was given. Its answers
	// don't depend on what it was asked before.
	FieldSets *merge.ParsedFieldSets

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
		Bucket:    cfg.BucketLabel(),
		FieldSets: merge.NewParsedFieldSets(),
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

// OfShard returns the settings for the parents of a shard.
func (s *Settings) OfShard(of shard.Shard) *Settings {
	out := *s
	out.Shard = of
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

// IsPaused says whether a parent has the annotation that stops Sync for it.
func (s *Settings) IsPaused(parent *resource.Resource) bool {
	paused, _ := parent.Annotation(s.Paused)
	return paused == "true"
}

// ChildSelector returns the label selector of the operator's children: its ownership label,
// and a tracking label of any value.
func (s *Settings) ChildSelector() string {
	return labels.Set{s.Config.OwnershipLabel: s.Config.Name}.String() + "," + s.Config.TrackingLabel
}

// UnstampedSelector returns the label selector of the operator's children whose label of the
// bucket is missing, or isn't one.
func (s *Settings) UnstampedSelector() string {
	return s.ChildSelector() + "," + shard.NoBucketSelector(s.Bucket)
}

// Watched says whether the labels of an object are those of the children that are watched.
func (s *Settings) Watched(res *resource.Resource) bool {
	owned, _ := res.Label(s.Config.OwnershipLabel)
	parent, tracked := res.Label(s.Config.TrackingLabel)
	if owned != s.Config.Name || !tracked || !s.Shard.Divides() {
		return owned == s.Config.Name && tracked
	}
	return s.Shard.Owns(types.UID(parent)) && s.IsStamped(res)
}

// IsStamped says whether a child says of which bucket its parent is, as far as its tracking label
// is right.
func (s *Settings) IsStamped(child *resource.Resource) bool {
	parent, _ := child.Label(s.Config.TrackingLabel)
	bucket, _ := child.Label(s.Bucket)
	return bucket == s.BucketOf(types.UID(parent))
}

// BucketOf returns the value of the label Bucket of the children of the parent with this UID.
func (s *Settings) BucketOf(parent types.UID) string { return strconv.Itoa(shard.Bucket(parent)) }

// Label gives labels, the JSON value of an object's labels, those that the engine gives to
// the children of the parent with this UID.
func (s *Settings) Label(labels map[string]any, parent types.UID) {
	labels[s.Config.TrackingLabel] = string(parent)
	labels[s.Config.OwnershipLabel] = s.Config.Name
	if s.Shard.Divides() {
		labels[s.Bucket] = s.BucketOf(parent)
	}
}

// LabelNames returns the names of the labels that the engine gives to children, or gave
// them while parents were divided.
func (s *Settings) LabelNames() [3]string {
	return [...]string{s.Config.TrackingLabel, s.Config.OwnershipLabel, s.Bucket}
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
