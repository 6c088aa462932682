package leave

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// How says what becomes of the parents and children of an operator that leaves.
type How struct {
	// Drain is how long to wait for the end of parents and children. Not negative.
	Drain time.Duration
	// KeepChildren lets the children stay: they are nobody's then.
	KeepChildren bool
	// KeepParents lets the parents stay, without the operator's finalizer.
	KeepParents bool
	// Finalize has this process finalize the parents, in the place of the operator in the cluster.
	Finalize bool
}

// Keeps says whether something is to stay, which is Prepare's work.
func (h How) Keeps() bool { return h.KeepParents || h.KeepChildren }

// An Operator is one that leaves. It is immutable.
type Operator struct {
	Settings *catalog.Settings
	Client   *client.Client
}

// name returns the operator's name.
func (o Operator) name() string { return o.Settings.Config.Name }

// pausedBy is the annotation on a parent that says that its pause is this package's work.
// Its value is pausedByUs.
func (o Operator) pausedBy() string { return o.Settings.Config.Domain + "/paused-by" }

const pausedByUs = "uninstall"

// isPaused says whether a parent was paused by Prepare.
func (o Operator) isPaused(parent *resource.Resource) bool {
	by, _ := parent.Annotation(o.pausedBy())
	return by == pausedByUs
}

// holds says whether a parent has a finalizer of the operator.
func (o Operator) holds(parent *resource.Resource) bool {
	held := parent.Finalizers()
	return len(o.Settings.WithoutOurs(slices.Clone(held))) < len(held)
}

// sharesParents says whether another operator has parents of the same type.
func (o Operator) sharesParents(other Operator) bool {
	return o.Settings.Config.Parent.GroupVersionKind().GroupKind() == other.Settings.Config.Parent.GroupVersionKind().GroupKind()
}

// ownsParents says whether the parents are the operator's to delete: they are of a type
// that isn't Kubernetes' own.
func (o Operator) ownsParents() bool {
	return !slices.ContainsFunc(k8s.Mappings(), func(m resource.Mapping) bool {
		return m.Type.GroupVersionKind().GroupKind() == o.Settings.Config.Parent.GroupVersionKind().GroupKind()
	})
}

// InOrder returns the operators so that each comes after those that have its parents among
// their children. Those would make the parents anew. Where that is a circle, and among
// those that have nothing to do with each other, the given order stays.
func InOrder(operators []Operator) []Operator {
	rest := slices.Clone(operators)
	var out []Operator
	for len(rest) > 0 {
		i := max(0, slices.IndexFunc(rest, func(o Operator) bool {
			return !slices.ContainsFunc(rest, func(other Operator) bool { return other.name() != o.name() && other.makes(o.Settings.Config.Parent) })
		}))
		out = append(out, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	return out
}

// makes says whether a type is one of the operator's children.
func (o Operator) makes(t resource.Type) bool {
	for _, k := range o.Settings.Types.Children {
		if k.Type == t {
			return true
		}
	}
	return false
}

// A Remnant is an object that is left, or that is still to be dealt with.
type Remnant struct {
	Ref        object.Ref
	UID        types.UID
	Finalizers []string
	Deleting   bool // it goes once its finalizers are gone
	Holds      bool // a parent: one of the finalizers is the operator's
	Paused     bool // a parent: it was paused by Prepare
	New        bool // a parent: it was created since Look
	Retained   bool // a child: its type has Retain, so that it outlives a parent that is deleted
}

// remnantOf returns what is told of an object.
func remnantOf(res *resource.Resource) Remnant {
	return Remnant{Ref: object.RefOf(res), UID: res.UID(), Finalizers: res.Finalizers(), Deleting: res.IsDeleting()}
}
