package storm

import (
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// survey finds out what is part of what in all that a value leads to, which must be addressable.
func (c *copier) survey(from reflect.Value) {
	from = open(from)
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() && c.follows(from) && c.meets(target(from)) {
			c.survey(from.Elem())
		}
	case reflect.Interface:
		if !from.IsNil() {
			c.survey(c.addressable(from.Elem()))
		}
	case reflect.Struct:
		c.surveyStruct(from)
	case reflect.Array:
		for i := range from.Len() {
			c.part(from.Index(i))
		}
	case reflect.Slice:
		c.surveySlice(from)
	case reflect.Func:
		if !from.IsNil() {
			name := runtime.FuncForPC(from.Pointer()).Name()
			if method, ok := strings.CutSuffix(name, "-fm"); ok {
				c.methods = append(c.methods, method[strings.LastIndex(method, "/")+1:])
			}
		}
	case reflect.Map:
		if from.IsNil() || !c.meets(place{from.UnsafePointer(), from.Type()}) {
			return
		}
		for key, value := range from.Seq2() {
			c.survey(c.addressable(key))
			c.survey(c.addressable(value))
		}
	}
}

// meets says whether something is met for the first time.
func (c *copier) meets(at place) bool {
	if c.met[at] {
		return false
	}
	c.met[at] = true
	return true
}

func (c *copier) part(v reflect.Value) {
	v = open(v)
	c.parts[placeOf(v)] = true
	c.survey(v)
}

func (c *copier) surveyStruct(from reflect.Value) {
	switch t := from.Type(); {
	case t == reflect.TypeFor[sync.Map]():
		(*sync.Map)(from.Addr().UnsafePointer()).Range(func(key, value any) bool {
			c.survey(c.addressable(reflect.ValueOf(&key).Elem()))
			c.survey(c.addressable(reflect.ValueOf(&value).Elem()))
			return true
		})
	case t == reflect.TypeFor[sync.Cond]():
		c.survey(from.FieldByName("L"))
	case isAtomicBox(t):
		if held := from.Addr().MethodByName("Load").Call(nil)[0]; !held.IsNil() {
			c.survey(c.addressable(held))
		}
	case c.descends(t):
		for _, field := range from.Fields() {
			c.part(field)
		}
	}
}

func (c *copier) surveySlice(from reflect.Value) {
	at := place{from.UnsafePointer(), from.Type().Elem()}
	if from.Cap() == 0 || at.t.Size() == 0 || c.arrays[at] >= from.Cap() {
		return
	}
	c.arrays[at] = from.Cap()
	for i, all := 0, from.Slice(0, from.Cap()); i < all.Len(); i++ {
		c.part(all.Index(i))
	}
}

// findWhole finds the array that each array is a part of: slices of one array may begin at
// different items of it.
func (c *copier) findWhole() {
	byType := map[reflect.Type][]place{}
	for at := range maps.Keys(c.arrays) {
		byType[at.t] = append(byType[at.t], at)
	}
	for t, all := range byType {
		slices.SortFunc(all, func(a, b place) int { return int(uintptr(a.at)) - int(uintptr(b.at)) })
		whole := all[0]
		for _, at := range all {
			if n := int((uintptr(at.at) - uintptr(whole.at)) / t.Size()); n < c.arrays[whole] {
				c.arrays[whole] = max(c.arrays[whole], n+c.arrays[at])
			} else {
				whole = at
			}
			c.whole[at] = whole
		}
	}
}
