package storm

import (
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// A copier copies a value and what it leads to, as far as that belongs to the module under test.
// Pointers into the middle of something lead into the middle of its copy, and slices of one array
// stay slices of one. So it goes through everything twice: first to know what is part of what
// (survey.go), then to copy.
type copier struct {
	module  string
	shared  map[place]bool          // what is never copied
	met     map[place]bool          // pointers and maps that the survey has met
	parts   map[place]bool          // of structs and arrays
	arrays  map[place]int           // of slices: how many items they have
	whole   map[place]place         // the array that another one is a part of, or itself
	copies  map[place]reflect.Value // pointers to the copies
	methods []string                // method values, by name
	temps   []reflect.Value         // which keep their addresses until all is copied
	late    []func()                // sets pointers to parts
	last    []func()                // sets what holds values, such as maps, when all pointers are set
}

// A place is where something is. A struct and its first field are at one address.
type place struct {
	at unsafe.Pointer
	t  reflect.Type // of what is there, of an item where it is an array
}

// newCopier returns one that shares what these pointers point to. It is for one copy.
func newCopier(shared ...any) *copier {
	c := &copier{
		shared: map[place]bool{}, met: map[place]bool{}, parts: map[place]bool{},
		arrays: map[place]int{}, whole: map[place]place{}, copies: map[place]reflect.Value{},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		c.module = info.Main.Path
	}
	for _, s := range shared {
		if v := reflect.ValueOf(s); v.Kind() == reflect.Pointer {
			c.shared[target(v)] = true
		}
	}
	return c
}

// target returns where a pointer leads to.
func target(pointer reflect.Value) place {
	return place{pointer.UnsafePointer(), pointer.Type().Elem()}
}

// placeOf returns where an addressable value is.
func placeOf(v reflect.Value) place { return place{unsafe.Pointer(v.UnsafeAddr()), v.Type()} }

// copyOf returns a copy of v.
func copyOf[T any](c *copier, v T) T {
	var out T
	from := reflect.ValueOf(&v).Elem()
	c.survey(from)
	c.findWhole()
	c.copy(reflect.ValueOf(&out).Elem(), from)
	for _, set := range slices.Concat(c.late, c.last) {
		set()
	}
	return out
}

// copy sets to, which must be addressable, to a copy of from, which must be, too.
func (c *copier) copy(to, from reflect.Value) {
	to, from = open(to), open(from)
	c.copies[placeOf(from)] = to.Addr()
	to.Set(from) // what isn't known better
	switch from.Kind() {
	case reflect.Pointer:
		c.copyPointer(to, from)
	case reflect.Interface:
		if !from.IsNil() {
			value := c.boxed(from.Elem())
			c.last = append(c.last, func() { to.Set(value) })
		}
	case reflect.Struct:
		c.copyStruct(to, from)
	case reflect.Array:
		for i := range from.Len() {
			c.copy(to.Index(i), from.Index(i))
		}
	case reflect.Slice:
		c.copySlice(to, from)
	case reflect.Map:
		c.copyMap(to, from)
	}
}

func (c *copier) copyPointer(to, from reflect.Value) {
	if from.IsNil() || !c.follows(from) {
		return
	}
	at := target(from)
	if known, ok := c.copies[at]; ok {
		to.Set(known.Convert(from.Type()))
		return
	}
	if c.parts[at] {
		c.late = append(c.late, func() {
			if known, ok := c.copies[at]; ok {
				to.Set(known.Convert(from.Type()))
			}
		})
		return
	}
	next := reflect.New(from.Type().Elem())
	c.copy(next.Elem(), from.Elem())
	to.Set(next.Convert(from.Type()))
}

func (c *copier) copySlice(to, from reflect.Value) {
	item := from.Type().Elem()
	if from.Cap() == 0 || item.Size() == 0 {
		return
	}
	at := place{from.UnsafePointer(), item}
	whole := c.whole[at]
	array, ok := c.copies[place{whole.at, reflect.SliceOf(item)}]
	if !ok {
		n := c.arrays[whole]
		array = reflect.MakeSlice(reflect.SliceOf(item), n, n)
		c.copies[place{whole.at, reflect.SliceOf(item)}] = array
		was := reflect.SliceAt(item, whole.at, n)
		for i := range n {
			c.copy(array.Index(i), was.Index(i))
		}
	}
	begin := int((uintptr(at.at) - uintptr(whole.at)) / item.Size())
	to.Set(array.Slice3(begin, begin+from.Len(), begin+from.Cap()).Convert(from.Type()))
}

func (c *copier) copyMap(to, from reflect.Value) {
	at := place{from.UnsafePointer(), from.Type()}
	if known, ok := c.copies[at]; ok || from.IsNil() {
		if ok {
			to.Set(known)
		}
		return
	}
	next := reflect.MakeMapWithSize(from.Type(), from.Len())
	c.copies[at] = next
	to.Set(next)
	for key, value := range from.Seq2() {
		key, value = c.boxed(key), c.boxed(value)
		c.last = append(c.last, func() { next.SetMapIndex(key, value) })
	}
}

// boxed returns a copy of a value that isn't addressable.
func (c *copier) boxed(v reflect.Value) reflect.Value {
	to := reflect.New(v.Type()).Elem()
	c.copy(to, c.addressable(v))
	return to
}

// addressable returns a variable that has a value.
func (c *copier) addressable(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	c.temps = append(c.temps, out)
	return out
}

func (c *copier) copyStruct(to, from reflect.Value) {
	switch t := from.Type(); {
	case t == reflect.TypeFor[sync.Map]():
		to.SetZero()
		out := (*sync.Map)(to.Addr().UnsafePointer())
		(*sync.Map)(from.Addr().UnsafePointer()).Range(func(key, value any) bool {
			k, v := c.boxed(reflect.ValueOf(&key).Elem()), c.boxed(reflect.ValueOf(&value).Elem())
			c.last = append(c.last, func() { out.Store(k.Interface(), v.Interface()) })
			return true
		})
	case t == reflect.TypeFor[sync.Cond]():
		to.SetZero() // nobody waits for the copy; it may not be that of one that is in use
		c.copy(to.FieldByName("L"), from.FieldByName("L"))
	case isAtomicBox(t):
		if held := from.Addr().MethodByName("Load").Call(nil)[0]; !held.IsNil() {
			value := c.boxed(held)
			to.SetZero()
			c.last = append(c.last, func() { to.Addr().MethodByName("Store").Call([]reflect.Value{value}) })
		}
	case c.descends(t):
		for i := range from.NumField() {
			c.copy(to.Field(i), from.Field(i))
		}
	}
}

// isAtomicBox says whether a type is atomic.Value or an atomic.Pointer.
func isAtomicBox(t reflect.Type) bool {
	return t.PkgPath() == "sync/atomic" && (t.Name() == "Value" || strings.HasPrefix(t.Name(), "Pointer["))
}

// follows says whether what a pointer leads to is copied.
func (c *copier) follows(pointer reflect.Value) bool {
	return !c.shared[target(pointer)] && c.descends(pointer.Type().Elem())
}

// descends says whether what a type has inside is copied. The fields of most types of the standard
// library, and of other modules, are their own business: values are copied as they are, with what they
// point to shared.
func (c *copier) descends(t reflect.Type) bool {
	at := t.PkgPath()
	if at == "" || t.Kind() != reflect.Struct {
		return true
	}
	inside := func(module string) bool { return at == module || strings.HasPrefix(at, module+"/") }
	switch {
	case inside(ownModule):
		return c.module == ownModule && !inside(ownModule+"/resource") && !inside(ownModule+"/internal") && !inside(ownModule+"/testkit") || inside(ownModule+"/handler")
	case inside("k8s.io/api"), inside("k8s.io/apimachinery"):
		return true
	case slices.Contains([]string{"bytes", "container/list", "container/ring", "math/big", "strings", "sync", "sync/atomic"}, at):
		return true
	}
	return c.module != "" && inside(c.module)
}

const ownModule = "github.com/roperator/roperator"

// open makes a field that isn't exported one that may be read and set. v is addressable.
func open(v reflect.Value) reflect.Value {
	if v.CanSet() && v.CanInterface() {
		return v
	}
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}
