package runner

// fewChildren is up to how many children are looked through one by one.
const fewChildren = 16

// childMemories are what is remembered of a parent's children. The zero value
// is empty.
type childMemories struct {
	// list is in the order in which the handler returned them last.
	list []*childMemory
	// index says where they are in list if there are many; else it is nil.
	index map[objectRef]int
}

// of returns what is remembered of a child, nil if nothing is.
func (m *childMemories) of(ref objectRef) *childMemory {
	if i := m.at(ref); i >= 0 {
		return m.list[i]
	}
	return nil
}

func (m *childMemories) at(ref objectRef) int {
	if m.index != nil {
		if i, ok := m.index[ref]; ok {
			return i
		}
		return -1
	}
	for i, c := range m.list {
		if c.ref() == ref {
			return i
		}
	}
	return -1
}

// put adds or replaces what is remembered of a child.
func (m *childMemories) put(c *childMemory) {
	if i := m.at(c.ref()); i >= 0 {
		m.list[i] = c
		return
	}
	m.list = append(m.list, c)
	if m.index != nil {
		m.index[c.ref()] = len(m.list) - 1
	} else {
		m.reindex()
	}
}

func (m *childMemories) reindex() {
	m.index = nil
	if len(m.list) <= fewChildren {
		return
	}
	m.index = make(map[objectRef]int, len(m.list))
	for i, c := range m.list {
		m.index[c.ref()] = i
	}
}

// returned finds the child for which the handler returned what has this sum,
// nil if there is none near position i of the list, where it was the last time
// if nothing has changed.
func (m *childMemories) returned(i int, sum digest) *childMemory {
	for _, c := range m.list[max(0, min(i-fewChildren, len(m.list))):min(i+fewChildren, len(m.list))] {
		if c.sum == sum {
			return c
		}
	}
	return nil
}

// keepOnly drops what is remembered of children that are no longer desired.
func (m *childMemories) keepOnly(desired []*desiredChild) {
	if m.inOrder(desired) {
		return
	}
	list := make([]*childMemory, 0, len(m.list))
	for _, d := range desired {
		if c := m.of(d.ref); c != nil {
			list = append(list, c)
		}
	}
	m.list = list
	m.reindex()
}

func (m *childMemories) inOrder(desired []*desiredChild) bool {
	if len(m.list) != len(desired) {
		return len(m.list) == 0
	}
	for i, c := range m.list {
		if c.ref() != desired[i].ref {
			return false
		}
	}
	return true
}
