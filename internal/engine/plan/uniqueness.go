package plan

import "github.com/roperator/roperator/internal/object"

// A uniqueness finds children that a response has twice. While the children are
// those of the last response, in the same order, none can be there twice, and no
// map is made.
type uniqueness struct {
	seen map[object.Ref]int // the positions of the children so far; nil: as in the last response
}

// add returns the position of the earlier child that is the same object as
// all[i], false if there is none. last are the children of the last response.
func (u *uniqueness) add(all []Desired, i int, last *childMemories) (first int, twice bool) {
	if u.seen == nil {
		if i < len(last.list) && all[i].known != nil && all[i].known == last.list[i] {
			return 0, false
		}
		u.seen = make(map[object.Ref]int, len(all))
		for earlier := range i {
			u.note(all, earlier)
		}
	}
	if first, twice = u.seen[all[i].ref]; !twice {
		u.note(all, i)
	}
	return first, twice
}

// note remembers the position of child i, unless the child was refused.
func (u *uniqueness) note(all []Desired, i int) {
	if all[i].kind != nil {
		u.seen[all[i].ref] = i
	}
}
