package main

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// noteZeros notes in the Node of a kind which fields have zero values that equal none: those that the Go type drops, since
// they have omitempty and are no pointers, and structs, maps and lists that are no pointers. A kind without a Go type in client-go has none.
func noteZeros(n *listkeys.Node, t resource.Type) {
	object, err := scheme.Scheme.New(t.GroupVersionKind())
	if err != nil {
		return
	}
	zeros(n, reflect.TypeOf(object), map[*listkeys.Node]bool{})
}

func zeros(n *listkeys.Node, t reflect.Type, seen map[*listkeys.Node]bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n == nil {
		return
	}
	switch {
	case n.Kind == listkeys.List && t.Kind() == reflect.Slice, n.Kind == listkeys.Map && t.Kind() == reflect.Map:
		zeros(n.Elem, t.Elem(), seen)
	case n.Kind == listkeys.Struct && t.Kind() == reflect.Struct && !seen[n]:
		seen[n] = true
		zeroFields(n, t, seen)
	}
}

func zeroFields(n *listkeys.Node, t reflect.Type, seen map[*listkeys.Node]bool) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous {
			zeroFields(n, f.Type, seen)
			continue
		}
		of, ok := n.Fields[name]
		if !ok {
			continue
		}
		if dropsZero(f, of, options) && !slices.Contains(n.Zeros, name) {
			n.Zeros = append(n.Zeros, name)
			slices.Sort(n.Zeros)
		}
		zeros(of, f.Type, seen)
	}
}

func dropsZero(f reflect.StructField, of *listkeys.Node, options string) bool {
	omits := slices.Contains(strings.Split(options, ","), "omitempty")
	switch f.Type.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return omits
	case reflect.Map, reflect.Slice: // storage has no empty ones
		return true
	case reflect.Struct: // not one that has another form in JSON, such as a time
		return of != nil && of.Kind == listkeys.Struct
	}
	return false
}
