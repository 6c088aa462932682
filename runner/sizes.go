package runner

// Sizes says how many entries there are in everything that is kept by parent
// or by child, so that a test sees what isn't forgotten.
func (p *probed) Sizes() map[string]int {
	out := map[string]int{}
	p.store.sizes(out)
	p.queue.sizes(out)
	p.memory.sizes(out)
	p.loops.sizes(out)
	return out
}

func (m *resourceMap) sizes(out map[string]int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for t, objects := range m.mu.objects {
		out["objects "+t.String()] = len(objects)
	}
	for t, tombstones := range m.mu.deleted {
		out["tombstones "+t.String()] = len(tombstones)
	}
	out["parents by UID"] = len(m.mu.parents)
	out["children by parent"] = len(m.mu.children)
	out["floors"] = len(m.mu.floors)
	out["waiting"] = len(m.mu.waiting)
	out["departed"] = len(m.mu.departed)
}

func (s *scheduler) sizes(out map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out["scheduled parents"] = len(s.mu.parents)
	out["timers"] = len(s.mu.timers)
}

func (m *memory) sizes(out map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out["remembered parents"] = len(m.mu.parents)
}

func (d *loopDetector) sizes(out map[string]int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out["loops"] = len(d.mu.parents)
}
