package relate

import "fmt"

// Dump returns what is watched, held and referred to, for a test that has failed.
func (r *Relations) Dump() (out string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for q, s := range r.mu.sources {
		out += fmt.Sprintf("source %s synced %t stale %t pos %s listed %d err %v looking %d\n", q, s.synced, s.stale, s.position, s.listed, s.err, len(s.looking))
		for k, o := range s.objects {
			out += fmt.Sprintf("   %s %s\n", k, o.ResourceVersion())
		}
	}
	for q, of := range r.mu.queries {
		out += fmt.Sprintf("query %s number %d parents %v\n", q, of.number, of.parents)
	}
	return out
}
