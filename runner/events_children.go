package runner

import (
	"fmt"
	"strings"
)

// told says what the Event about a verb is.
func (v verb) told(claimed bool) (reason, note string) {
	switch {
	case v == verbCreate && claimed:
		return reasonAdopted, "adopted"
	case v == verbCreate:
		return reasonCreated, "created"
	case v == verbUpdate, v == verbApply:
		return reasonUpdated, "updated"
	case v == verbRecreate:
		return reasonRecreated, "deleted, to be created anew:"
	case v == verbDelete:
		return reasonDeleted, "deleted"
	}
	return "", "" // nothing that anyone but the engine would see
}

// tellWrites records what a pass has written: one Event for all children that
// have met the same, however many they are.
func (p *pass) tellWrites() {
	written := map[string][]string{} // reason -> children
	var order []string
	notes := map[string]string{}
	for _, r := range p.results {
		if !r.wrote {
			continue
		}
		reason, note := r.action.verb.told(r.claimed)
		if reason == "" {
			continue
		}
		if written[reason] == nil {
			order = append(order, reason)
			notes[reason] = note
		}
		written[reason] = append(written[reason], p.nameOf(r.action.ref))
	}
	for _, reason := range order {
		p.event(p.parent, normal, reason, notes[reason]+" "+listed(written[reason]))
	}
}

// nameOf returns the kind and name of a child, and its namespace if that isn't
// the parent's.
func (p *pass) nameOf(child objectRef) string {
	if child.Key.Namespace == p.parent.Namespace() {
		return child.Type.Kind + " " + child.Key.Name
	}
	return child.String()
}

// listed returns the first of some names, and how many more there are; so that
// it fits into an Event.
func listed(names []string) string {
	const room = maxEventNote - 100 // for what stands before and after
	shown, size := 0, 0
	for shown < len(names) && shown < maxListed && size+len(names[shown]) < room {
		size += len(names[shown]) + len(", ")
		shown++
	}
	text := strings.Join(names[:shown], ", ")
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
