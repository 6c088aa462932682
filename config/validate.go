package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// maxConcurrentSyncs bounds how many parents are synced at the same time: each takes a goroutine.
const maxConcurrentSyncs = 10_000

// Validate joins every mistake into one error (errors.Join), in the order of
// the fields. Each names the field and says what to do. It asks no API server,
// so kinds that don't exist are not found here.
func (o *Operator) Validate() error {
	if o == nil {
		return errors.New("config.Operator: nil")
	}
	v := &mistakes{}
	o.validateName(v)
	validateType(v, "Parent", o.Parent)
	o.validateChildren(v)
	o.validateNamespaces(v)
	if _, err := labels.Parse(o.ParentSelector); err != nil {
		v.add("ParentSelector", "not a label selector: %v", err)
	}
	o.validateDomain(v)
	o.validateFinalizers(v)
	if o.MaxErrorBackoff < 0 {
		v.add("MaxErrorBackoff", "negative (%s); leave it 0 for 10 minutes", o.MaxErrorBackoff)
	}
	if o.MaxConcurrentSyncs < 0 {
		v.add("MaxConcurrentSyncs", "negative (%d); leave it 0 for 16", o.MaxConcurrentSyncs)
	}
	if o.MaxConcurrentSyncs > maxConcurrentSyncs {
		v.add("MaxConcurrentSyncs", "more than %d (%d); leave it 0 for 16", maxConcurrentSyncs, o.MaxConcurrentSyncs)
	}
	if o.HandlerTimeout < 0 {
		v.add("HandlerTimeout", "negative (%s); leave it 0 for no timeout", o.HandlerTimeout)
	}
	o.validateRelated(v)
	o.validateFormerChildren(v)
	o.validateCRDs(v)
	o.validateMappings(v)
	return errors.Join(v.all...)
}

// mistakes collects errors.
type mistakes struct{ all []error }

func (m *mistakes) add(field, format string, args ...any) {
	m.all = append(m.all, fmt.Errorf("config.Operator: %s: "+format, append([]any{field}, args...)...))
}

// addEach adds what apimachinery's validation functions return.
func (m *mistakes) addEach(field, value string, found []string) {
	for _, mistake := range found {
		m.add(field, "%q: %s", value, mistake)
	}
}

func (o *Operator) validateName(v *mistakes) {
	if o.Name == "" {
		v.add("Name", "empty; name the operator, as in \"echoserver\"")
		return
	}
	if len(o.Name) > validation.LabelValueMaxLength {
		v.add("Name", "%q: longer than %d characters, the limit for label values and finalizers; choose a shorter one",
			o.Name, validation.LabelValueMaxLength)
	}
	v.addEach("Name", o.Name, validation.IsDNS1123Subdomain(o.Name))
}

func validateType(v *mistakes, field string, t resource.Type) {
	switch gv, err := schema.ParseGroupVersion(t.APIVersion); {
	case t.APIVersion == "":
		v.add(field+".APIVersion", "empty; set it as in \"apps/v1\"")
	case err != nil || gv.Version == "":
		v.add(field+".APIVersion", "%q: neither \"version\" nor \"group/version\"", t.APIVersion)
	default:
		v.addEach(field+".APIVersion", gv.Version, validation.IsDNS1035Label(gv.Version))
		if gv.Group != "" {
			v.addEach(field+".APIVersion", gv.Group, validation.IsDNS1123Subdomain(gv.Group))
		}
	}
	if t.Kind == "" {
		v.add(field+".Kind", "empty; set it as in \"Deployment\"")
		return
	}
	v.addEach(field+".Kind", t.Kind, validation.IsDNS1035Label(strings.ToLower(t.Kind)))
}

// A kindsOf finds kinds that are in a list of types twice.
type kindsOf struct {
	list   string // the name of the list
	suffix string // of its items' field that is the type
	seen   []resource.Type
	at     []int
}

// once adds a mistake if the kind of the item i is in the list already.
func (k *kindsOf) once(v *mistakes, i int, t resource.Type) {
	if t.APIVersion == "" || t.Kind == "" {
		return // another mistake
	}
	n := slices.IndexFunc(k.seen, func(other resource.Type) bool {
		return other.GroupVersionKind().GroupKind() == t.GroupVersionKind().GroupKind()
	})
	field := fmt.Sprintf("%s[%d]%s", k.list, i, k.suffix)
	switch {
	case n < 0:
		k.seen, k.at = append(k.seen, t), append(k.at, i)
	case k.seen[n] == t:
		v.add(field, "%s is %s[%d] already; remove one", t, k.list, k.at[n])
	default:
		v.add(field, "%s is %s[%d] already, in another version (%s); remove one", t, k.list, k.at[n], k.seen[n])
	}
}

func (o *Operator) validateChildren(v *mistakes) {
	kinds := kindsOf{list: "Children", suffix: ".Type"}
	for i, child := range o.Children {
		field := fmt.Sprintf("Children[%d]", i)
		validateType(v, field+".Type", child.Type)
		if child.Type.Kind != "" && child.Type.GroupVersionKind().GroupKind() == o.Parent.GroupVersionKind().GroupKind() {
			v.add(field+".Type", "%s is the kind of the parent; a parent can't be its own child", child.Type)
		} else {
			kinds.once(v, i, child.Type)
		}
		switch child.Strategy {
		case Replace, Recreate, OnDelete, Apply:
		case "":
			v.add(field+".Strategy", "not set; choose Replace, Recreate, OnDelete or Apply")
		default:
			v.add(field+".Strategy", "%q is unknown; choose Replace, Recreate, OnDelete or Apply", string(child.Strategy))
		}
		validateRecreateImmutable(v, field+".RecreateImmutable", child)
		validateRoll(v, field+".Roll", child)
		if child.Adopt && child.AdoptOffered {
			v.add(field+".AdoptOffered", "set beside Adopt, which allows taking over what isn't offered as well; remove one")
		}
		validateIgnored(v, field, child.IgnoreFields)
	}
}

func validateRecreateImmutable(v *mistakes, field string, child Child) {
	if !child.RecreateImmutable {
		return
	}
	switch child.Strategy {
	case Recreate:
		v.add(field, "set beside the strategy Recreate, which recreates for any field; remove it")
	case OnDelete:
		v.add(field, "set beside the strategy OnDelete, which changes nothing; remove it, or choose Replace or Apply")
	}
	if object.HoldsData(child.Type) {
		v.add(field, "a %s holds data, which would be lost; remove it", child.Type.Kind)
	}
}

func validateRoll(v *mistakes, field string, child Child) {
	if child.Roll == nil {
		return
	}
	if child.Strategy == OnDelete {
		v.add(field, "set beside the strategy OnDelete, which changes nothing; remove it, or choose another strategy")
	}
	if text := child.Roll.MaxUnavailable; text != "" {
		digits, percent := strings.CutSuffix(text, "%")
		n, err := strconv.ParseUint(digits, 10, 31)
		switch {
		case err != nil:
			v.add(field+".MaxUnavailable", "%q is neither a number nor a percentage; write it as \"2\" or \"25%%\"", text)
		case n == 0:
			v.add(field+".MaxUnavailable", "%q would never update a child; it must be at least 1", text)
		case percent && n > 100:
			v.add(field+".MaxUnavailable", "%q is more than all; write at most \"100%%\"", text)
		}
	}
	if text := child.Roll.Partition; text != "" {
		validatePath(v, field+".Partition", text)
	}
}

func validateIgnored(v *mistakes, field string, paths []string) {
	for i, text := range paths {
		validatePath(v, fmt.Sprintf("%s.IgnoreFields[%d]", field, i), text)
	}
}

func validatePath(v *mistakes, field, text string) {
	if _, err := fieldpath.ParseGiven(text); err != nil {
		v.add(field, "%w", err)
	}
}

func (o *Operator) validateRelated(v *mistakes) {
	kinds := kindsOf{list: "Related", suffix: ".Type"}
	for i, related := range o.Related {
		field := fmt.Sprintf("Related[%d]", i)
		validateType(v, field+".Type", related.Type)
		kinds.once(v, i, related.Type)
		o.validateVersion(v, field+".Type", related.Type)
		eachOnce(v, field+".Fields", related.Fields, "remove it", func(field, text string) { validatePath(v, field, text) })
	}
}

// validateVersion adds a mistake if a related type is the kind of the parent or of a child in another version.
func (o *Operator) validateVersion(v *mistakes, field string, t resource.Type) {
	differs := func(other resource.Type) bool {
		return t.Kind != "" && other != t && other.GroupVersionKind().GroupKind() == t.GroupVersionKind().GroupKind()
	}
	if differs(o.Parent) {
		v.add(field, "%s is the kind of the parent in another version; use %s", t, o.Parent)
	}
	if i := slices.IndexFunc(o.Children, func(child Child) bool { return differs(child.Type) }); i >= 0 {
		v.add(field, "%s is the kind of Children[%d] in another version; use %s", t, i, o.Children[i].Type)
	}
}

func (o *Operator) validateNamespaces(v *mistakes) {
	eachOnce(v, "Namespaces", o.Namespaces, "leave Namespaces empty for all of them", func(field, namespace string) {
		v.addEach(field, namespace, validation.IsDNS1123Label(namespace))
	})
	if len(o.Namespaces) == 0 {
		return
	}
	for _, mapping := range o.Mappings {
		if mapping.Type == o.Parent && mapping.ClusterScoped {
			v.add("Namespaces", "set, but the parent %s is cluster-scoped by its mapping; use ParentSelector to restrict it", o.Parent)
			return
		}
	}
}

func (o *Operator) validateDomain(v *mistakes) {
	if o.Domain != "" {
		v.addEach("Domain", o.Domain, validation.IsDNS1123Subdomain(o.Domain))
	}
	if o.TrackingLabel != "" {
		v.addEach("TrackingLabel", o.TrackingLabel, validation.IsQualifiedName(o.TrackingLabel))
	}
	if o.OwnershipLabel != "" {
		v.addEach("OwnershipLabel", o.OwnershipLabel, validation.IsQualifiedName(o.OwnershipLabel))
	}
	domain := cmp.Or(o.Domain, DefaultDomain)
	tracking, ownership := cmp.Or(o.TrackingLabel, domain+"/parent-uid"), cmp.Or(o.OwnershipLabel, domain+"/operator")
	if tracking == ownership {
		v.add("OwnershipLabel", "%q is the TrackingLabel as well; they must differ", ownership)
	}
	for _, own := range [...]struct{ field, label string }{{"TrackingLabel", tracking}, {"OwnershipLabel", ownership}} {
		if own.label == domain+"/bucket" {
			v.add(own.field, "%q is the label of the buckets; choose another", own.label)
		}
	}
}

func (o *Operator) validateFinalizers(v *mistakes) {
	switch o.Finalizer {
	case FinalizerAuto, FinalizerAlways, FinalizerNever:
	default:
		v.add("Finalizer", "%q is unknown; choose FinalizerAuto, FinalizerAlways or FinalizerNever", string(o.Finalizer))
	}
	switch o.Teardown {
	case TeardownGC, TeardownOrdered:
	default:
		v.add("Teardown", "%q is unknown; choose TeardownGC or TeardownOrdered", string(o.Teardown))
	}
	if o.Finalizer == FinalizerNever && o.Teardown == TeardownOrdered {
		v.add("Teardown", "TeardownOrdered needs the finalizer, which FinalizerNever forbids; remove one")
	}
	for i, child := range o.Children {
		if o.Finalizer == FinalizerNever && child.Retain {
			v.add(fmt.Sprintf("Children[%d].Retain", i), "it needs the finalizer, which FinalizerNever forbids; remove one")
		}
	}
	ours := cmp.Or(o.Domain, DefaultDomain) + "/" + o.Name
	eachOnce(v, "FormerFinalizers", o.FormerFinalizers, "remove it", func(field, name string) {
		switch name {
		case ours:
			if o.Finalizer != FinalizerNever {
				v.add(field, "%q is the finalizer of this build; remove it, or set FinalizerNever", name)
			}
		case "foregroundDeletion", "orphan", "kubernetes":
			v.add(field, "%q is Kubernetes' own and must not be removed", name)
		default:
			v.addEach(field, name, validation.IsQualifiedName(name))
		}
	})
}

// eachOnce checks the items of a list that are neither empty, for which advice
// says what to do, nor in the list already.
func eachOnce(v *mistakes, list string, items []string, advice string, check func(field, item string)) {
	for i, item := range items {
		field := fmt.Sprintf("%s[%d]", list, i)
		switch j := slices.Index(items, item); {
		case item == "":
			v.add(field, "empty; %s", advice)
		case j < i:
			v.add(field, "%q is %s[%d] already; remove one", item, list, j)
		default:
			check(field, item)
		}
	}
}

func (o *Operator) validateFormerChildren(v *mistakes) {
	kinds := kindsOf{list: "FormerChildren"}
	for i, t := range o.FormerChildren {
		field := fmt.Sprintf("FormerChildren[%d]", i)
		validateType(v, field, t)
		same := func(other resource.Type) bool {
			return t.Kind != "" && other.GroupVersionKind().GroupKind() == t.GroupVersionKind().GroupKind()
		}
		switch at := slices.IndexFunc(o.Children, func(child Child) bool { return same(child.Type) }); {
		case same(o.Parent):
			v.add(field, "%s is the kind of the parent", t)
		case at >= 0:
			v.add(field, "%s is Children[%d]; what is left of an earlier build is deleted all the same, unless the handler returns it", t, at)
		default:
			kinds.once(v, i, t)
		}
	}
}

func (o *Operator) validateMappings(v *mistakes) {
	first := map[resource.Type]int{}
	for i, mapping := range o.Mappings {
		field := fmt.Sprintf("Mappings[%d]", i)
		validateType(v, field+".Type", mapping.Type)
		if j, seen := first[mapping.Type]; seen {
			v.add(field+".Type", "%s is Mappings[%d] already; remove one", mapping.Type, j)
		} else {
			first[mapping.Type] = i
		}
		if mapping.Plural == "" {
			v.add(field+".Plural", "empty; set it as in \"deployments\"")
			continue
		}
		v.addEach(field+".Plural", mapping.Plural, validation.IsDNS1035Label(mapping.Plural))
	}
}
