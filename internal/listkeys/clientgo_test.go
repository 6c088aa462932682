package listkeys

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/roperator/roperator/resource"
)

// TestFor_ClientGo compares the table with the schema that client-go has of the built-in kinds, which server-side apply goes by,
// and which other code has generated: what is atomic, and which keys a list has. Where a property says something else than what
// it refers to, such as the claimRef of a PersistentVolume, the property counts.
func TestFor_ClientGo(t *testing.T) {
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	kinds, fields := 0, 0
	found := map[string]string{}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		of := For(resource.Type{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind})
		if of == nil || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		object, err := scheme.Scheme.New(gvk)
		require.NoError(t, err)
		object.GetObjectKind().SetGroupVersionKind(gvk)
		typed, err := converter.ObjectToTyped(object)
		if err != nil { // a kind that can't be applied, such as a Binding
			continue
		}
		c := comparison{schema: typed.Schema(), seen: map[*Node]bool{}, found: found}
		c.compare(of, typed.TypeRef(), gvk.Kind)
		kinds, fields = kinds+1, fields+c.fields
	}
	delete(found, "Pod.status.nodeAllocatableResourceClaimStatuses") // alpha, atomic until 1.36, which the table is of
	require.Empty(t, found)
	require.Greater(t, kinds, 50)
	require.Greater(t, fields, 3000)
	require.False(t, at(t, For(resource.Type{APIVersion: "v1", Kind: "PersistentVolume"}), "spec", "claimRef").Atomic)
}

type comparison struct {
	schema *schema.Schema
	seen   map[*Node]bool
	found  map[string]string // what differs, by the path
	fields int
}

func (c *comparison) compare(n *Node, ref schema.TypeRef, path string) {
	atom, ok := c.schema.Resolve(ref)
	if n == nil || !ok || c.seen[n] {
		return
	}
	c.seen[n] = true
	defer delete(c.seen, n)
	c.fields++
	switch {
	case atom.Map != nil && (n.Kind == Struct || n.Kind == Map):
		c.same(path, atom.Map.ElementRelationship == schema.Atomic, n.Atomic)
		if n.Kind == Map {
			c.compare(n.Elem, atom.Map.ElementType, path+".*")
		}
		for _, field := range atom.Map.Fields {
			c.compare(n.Fields[field.Name], field.Type, path+"."+field.Name)
		}
	case atom.List != nil && n.Kind == List:
		if n.Atomic {
			c.same(path, schema.Atomic, atom.List.ElementRelationship)
		}
		if len(atom.List.Keys) > 0 {
			c.same(path, atom.List.Keys, n.Keys)
		}
		c.compare(n.Elem, atom.List.ElementType, path+"[]")
	}
}

func (c *comparison) same(path string, theirs, ours any) {
	if !reflect.DeepEqual(theirs, ours) {
		c.found[path] = fmt.Sprint(theirs, " there, ", ours, " here")
	}
}
