package apply

import (
	"sync"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
)

// maxLessons bounds how many fields of all types Lessons remembers.
const maxLessons = 10_000

// A lesson says what an update without a field does, which the API server had made.
type lesson uint8

const (
	lessonNone    lesson = iota
	lessonStays          // the API server makes the field again, so far with the same value
	lessonFollows        // the API server makes the field again, of what the update says
	lessonKept           // the field can't be changed, or is made at a creation alone
)

// Lessons remember of the fields of each type what an update without them does. The
// zero value knows none. Its methods may be called concurrently.
type Lessons struct {
	mu struct {
		sync.Mutex
		of map[string]lesson // by type and shape of the field
	}
}

// known says whether there is a lesson of each field.
func (l *Lessons) known(k *catalog.Kind, fields []merge.MadeField) bool {
	return len(l.those(k, fields, func(of lesson) bool { return of == lessonNone })) == 0
}

// stay returns the fields that so far keep their value.
func (l *Lessons) stay(k *catalog.Kind, fields []merge.MadeField) []merge.MadeField {
	return l.those(k, fields, func(of lesson) bool { return of == lessonStays })
}

// notKept returns the fields that an update may lack.
func (l *Lessons) notKept(k *catalog.Kind, fields []merge.MadeField) []merge.MadeField {
	return l.those(k, fields, func(of lesson) bool { return of != lessonKept })
}

// those returns the fields whose lesson is wanted.
func (l *Lessons) those(k *catalog.Kind, fields []merge.MadeField, wanted func(lesson) bool) []merge.MadeField {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []merge.MadeField
	for _, f := range fields {
		if wanted(l.mu.of[lessonKey(k, f)]) {
			out = append(out, f)
		}
	}
	return out
}

// learn remembers a lesson of fields. That a field follows isn't forgotten when its
// value stays.
func (l *Lessons) learn(k *catalog.Kind, fields []merge.MadeField, is lesson) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range fields {
		key := lessonKey(k, f)
		before := l.mu.of[key]
		if before == lessonNone && len(l.mu.of) >= maxLessons || before == lessonFollows && is == lessonStays {
			continue
		}
		if l.mu.of == nil {
			l.mu.of = map[string]lesson{}
		}
		l.mu.of[key] = is
	}
}

func lessonKey(k *catalog.Kind, f merge.MadeField) string { return k.Type.String() + f.Shape() }
