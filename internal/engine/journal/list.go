package journal

// none is the place of no record.
const none = -1

// A list is a doubly linked list of records by their places, the oldest first. The links are in
// the records.
type list struct {
	first, last int32
	n           int
}

// links are the neighbours of a record in a list.
type links struct{ older, newer int32 }

func emptyList() list { return list{first: none, last: none} }

// push appends a record that isn't in the list. of returns the links of a record in this list.
func (l *list) push(at int32, of func(int32) *links) {
	*of(at) = links{older: l.last, newer: none}
	if l.last == none {
		l.first = at
	} else {
		of(l.last).newer = at
	}
	l.last = at
	l.n++
}

// remove takes a record out of the list.
func (l *list) remove(at int32, of func(int32) *links) {
	own := *of(at)
	if own.older == none {
		l.first = own.newer
	} else {
		of(own.older).newer = own.newer
	}
	if own.newer == none {
		l.last = own.older
	} else {
		of(own.newer).older = own.older
	}
	l.n--
}
