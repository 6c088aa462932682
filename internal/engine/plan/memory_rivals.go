package plan

import (
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// maxRivals bounds the objects of one parent of which it is remembered who else writes them.
const maxRivals = 16

// NoteRival remembers, as a text, who else writes an object, until ForgetRivals.
func (p *ParentMemory) NoteRival(ref object.Ref, text string) {
	if p.rivals == nil {
		p.rivals = map[object.Ref]string{}
	}
	if _, known := p.rivals[ref]; known || len(p.rivals) < maxRivals {
		p.rivals[ref] = text
	}
}

// Rival returns who else writes an object, empty if that isn't known.
func (p *ParentMemory) Rival(ref object.Ref) string { return p.rivals[ref] }

// RivalOverType returns who else writes objects of a type, empty if that isn't known. Of
// several texts it is the first in the order of the alphabet.
func (p *ParentMemory) RivalOverType(t resource.Type) string {
	first := ""
	for ref, text := range p.rivals {
		if ref.Type == t && (first == "" || text < first) {
			first = text
		}
	}
	return first
}

// ForgetRivals forgets who else writes objects.
func (p *ParentMemory) ForgetRivals() { p.rivals = nil }
