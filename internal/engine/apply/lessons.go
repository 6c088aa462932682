package apply

import (
	"slices"
	"strings"
	"sync"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
)

// maxLessons bounds how many fields Lessons remembers. Beyond that it begins anew.
const maxLessons = 10_000

// A lesson says what an update without a field does, which the API server had made.
type lesson uint8

const (
	lessonNone    lesson = iota
	lessonStays          // the API server makes the field again, so far with the same value
	lessonFollows        // the API server makes the field again, of what the update says
	lessonKept           // the field can't be changed, or is made at a creation alone
)

// Lessons remember what an update without a field does, for the children of one scope. The
// zero value knows none. Its methods may be called concurrently.
type Lessons struct {
	mu struct {
		sync.Mutex
		of map[string]lesson // by scope and shape of the field
	}
}

// known says whether there is a lesson of each field.
func (l *Lessons) known(in scope, fields []merge.MadeField) bool {
	return len(l.those(in, fields, func(of lesson) bool { return of == lessonNone })) == 0
}

// stay returns the fields that so far keep their value.
func (l *Lessons) stay(in scope, fields []merge.MadeField) []merge.MadeField {
	return l.those(in, fields, func(of lesson) bool { return of == lessonStays })
}

// notKept returns the fields that an update may lack.
func (l *Lessons) notKept(in scope, fields []merge.MadeField) []merge.MadeField {
	return l.those(in, fields, func(of lesson) bool { return of != lessonKept })
}

// those returns the fields whose lesson is wanted.
func (l *Lessons) those(in scope, fields []merge.MadeField, wanted func(lesson) bool) []merge.MadeField {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []merge.MadeField
	for _, f := range fields {
		if wanted(l.mu.of[lessonKey(in, f)]) {
			out = append(out, f)
		}
	}
	return out
}

// learn remembers a lesson of fields. That a field follows isn't forgotten when its
// value stays.
func (l *Lessons) learn(in scope, fields []merge.MadeField, is lesson) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range fields {
		key := lessonKey(in, f)
		before := l.mu.of[key]
		if before == lessonFollows && is == lessonStays {
			continue
		}
		if l.mu.of == nil || before == lessonNone && len(l.mu.of) >= maxLessons { // much of it may be of children that are gone
			l.mu.of = map[string]lesson{}
		}
		l.mu.of[key] = is
	}
}

func lessonKey(in scope, f merge.MadeField) string { return string(in) + f.Shape() }

// A scope is where a lesson holds: the type, the namespace, and the labels and names of annotations, by which webhooks and policies
// select objects.
type scope string

// scopeOf returns the scope of the child of an action, as the action leaves it.
func (x *Executor) scopeOf(a *plan.Action) scope {
	meta, _ := a.Want.Object()["metadata"].(map[string]any)
	desired, _ := meta["labels"].(map[string]any)
	given, _ := meta["annotations"].(map[string]any)
	live, noted := a.Live.Labels(), a.Live.Annotations()
	parts := make([]string, 0, len(desired)+len(given)+len(live)+len(noted))
	for name, value := range desired {
		text, _ := value.(string)
		parts = append(parts, name+"="+text)
	}
	for name, value := range live {
		if _, ok := desired[name]; !ok {
			parts = append(parts, name+"="+value)
		}
	}
	for name := range given {
		parts = append(parts, name)
	}
	for name := range noted {
		if _, ok := given[name]; !ok {
			parts = append(parts, name)
		}
	}
	own := x.LabelNames()
	parts = slices.DeleteFunc(parts, func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		return name == x.Mark || slices.Contains(own[:], name)
	})
	slices.Sort(parts)
	return scope(a.Kind.Type.String() + " " + a.Live.Namespace() + " " + strings.Join(parts, ","))
}
