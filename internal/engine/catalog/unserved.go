package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/roperator/roperator/resource"
)

// NotServed returns the error about a type that the API server doesn't serve. similar are
// the types that it serves and that may be meant: see SimilarTo. The error names them, or
// else says what to do about a custom resource and about a built-in kind.
func NotServed(t resource.Type, similar ...resource.Type) error {
	gvk := t.GroupVersionKind()
	custom := strings.Contains(gvk.Group, ".") && !strings.HasSuffix(gvk.Group, ".k8s.io")
	const what = "the API server doesn't serve this type"
	switch {
	case len(similar) > 0 && custom && similar[0].GroupVersionKind().GroupKind() == gvk.GroupKind():
		return fmt.Errorf("%s: %s, but serves %s; configure that version, or have the CustomResourceDefinition serve version %s", t, what, TypeList(similar), gvk.Version)
	case len(similar) > 0 && (!custom || len(ofGroup(gvk.Group, similar)) > 0):
		return fmt.Errorf("%s: %s, but serves %s; is that meant?", t, what, TypeList(similar))
	case strings.Contains(gvk.Group, "."): // more than one group of Kubernetes itself is made of CustomResourceDefinitions
		return fmt.Errorf("%s: %s; install the CustomResourceDefinition of kind %s in group %s (kubectl apply -f …) and see that it serves version %s",
			t, what, gvk.Kind, gvk.Group, gvk.Version)
	}
	return fmt.Errorf("%s: %s; check apiVersion and kind, or the version of the cluster", t, what)
}

// NotServed returns the error about a type that is Unserved.
func (k *Kind) NotServed() error { return NotServed(k.Type, k.Similar...) }

// TypeList names types in a text.
func TypeList(types []resource.Type) string {
	names := make([]string, 0, len(types))
	for _, t := range types {
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}

// SimilarTo returns those of the served types that may be meant by a type that isn't
// served: the same kind of the same group in other versions; else kinds whose name differs
// in upper and lower case alone, of the same group if there is one. They are in the order
// of served.
func SimilarTo(t resource.Type, served []resource.Type) []resource.Type {
	wanted := t.GroupVersionKind()
	for _, alike := range []func(of resource.Type) bool{
		func(of resource.Type) bool { return of.GroupVersionKind().GroupKind() == wanted.GroupKind() },
		func(of resource.Type) bool {
			return of.GroupVersionKind().Group == wanted.Group && strings.EqualFold(of.Kind, wanted.Kind)
		},
		func(of resource.Type) bool { return strings.EqualFold(of.Kind, wanted.Kind) },
	} {
		if found := slices.DeleteFunc(slices.Clone(served), func(of resource.Type) bool { return of == t || !alike(of) }); len(found) > 0 {
			return found
		}
	}
	return nil
}

// similarOfGroup returns what SimilarTo does, without the types of other groups: for a type
// that may come yet.
func similarOfGroup(t resource.Type, served []resource.Type) []resource.Type {
	return ofGroup(t.GroupVersionKind().Group, SimilarTo(t, served))
}

// ofGroup returns those of the types that are of an API group.
func ofGroup(group string, types []resource.Type) []resource.Type {
	return slices.DeleteFunc(slices.Clone(types), func(t resource.Type) bool { return t.GroupVersionKind().Group != group })
}

// allServed returns all types that the API server serves, the preferred version of a group
// first. It is for errors: of what can't be found out it says nothing.
func (f *Finder) allServed(ctx context.Context) []resource.Type {
	_, lists, _ := f.client.ServerGroupsAndResourcesWithContext(ctx) // what it could find out comes beside an error
	var out []resource.Type
	for _, list := range lists {
		for _, r := range list.APIResources {
			t := resource.Type{APIVersion: list.GroupVersion, Kind: r.Kind}
			if !strings.Contains(r.Name, "/") && !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// Similar returns the types of its group that may be meant by a type that isn't served: see
// SimilarTo. It asks the API server for all that it serves.
func (f *Finder) Similar(ctx context.Context, t resource.Type) []resource.Type {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	return similarOfGroup(t, f.allServed(ctx))
}
