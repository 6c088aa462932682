package plan

import (
	"encoding/hex"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// maxMark bounds the mark on a child, in bytes.
const maxMark = 16 << 10

// A mark is what the engine writes on a child, in the annotation <Domain>/applied,
// about the desired state that the child was last given. By the fields, a later
// build of the operator knows what to remove. By the hash, a restarted operator
// knows that the API server has accepted the desired state.
//
// The mark on a Secret says nothing of the Secret's values: see markHash.
//
// The text of a mark names the operator that made the mark, and has a check sum of
// the object that the mark was made for. People and controllers copy annotations,
// so a mark may be on an object that it says nothing of.
type mark struct {
	hash    jsonvalue.Digest // of the desired state: see markHash
	applied *merge.FieldSet  // the fields of the desired state
}

// markVersion is how a mark begins. Another format will have another version.
const markVersion = "v2"

// newMark returns the text of the mark that a child is given with d. The mark is the
// same for all desired states of the child that have the same markHash.
func newMark(s *catalog.Settings, d *Desired) string {
	head := strings.Join([]string{markVersion, s.Config.Name, markedName(d.ref), d.markHash().String(), ""}, ":")
	return head + d.said().Encode(maxMark-len(head))
}

// said returns the fields that d sets, as its mark records them. Fields that are ignored,
// or left to others, aren't among them.
func (d *Desired) said() *merge.FieldSet {
	return d.kind.Comparison.Record(d.kind.Comparison.Canonical(d.marked()))
}

// outdatedMark says whether the mark of a live child records the desired state d by
// another schema than the one that is known now. The mark would mistake items of
// lists then. The schemas of built-in types don't change.
func outdatedMark(s *catalog.Settings, d *Desired, live *resource.Resource) bool {
	if d.kind.Builtin != nil || d.kind.SchemaPending() {
		return false
	}
	now := newMark(s, d)
	text, ok := live.Annotation(s.Mark)
	return ok && !strings.HasSuffix(text, now[strings.Index(now, ":"+d.markHash().String()):])
}

// markPath returns the path of the applied annotation.
func markPath(s *catalog.Settings) string {
	return fieldpath.Path{fieldpath.Field("metadata"), fieldpath.Field("annotations"), fieldpath.Field(s.Mark)}.String()
}

// markedName returns the check sum of a child's kind, namespace and name in its
// mark.
func markedName(ref object.Ref) string {
	sum := fnv.New32a()
	for _, part := range []string{ref.Type.Kind, ref.Key.Namespace, ref.Key.Name} {
		sum.Write([]byte(part))
		sum.Write([]byte{0})
	}
	return strconv.FormatUint(uint64(sum.Sum32()), 16)
}

// readMark reads the mark of a live child. It returns the zero mark, by which no
// field is removed, if the mark is missing, can't be read, or isn't one that this
// operator has made for this child.
func readMark(s *catalog.Settings, live *resource.Resource) mark {
	text, ok := live.Annotation(s.Mark)
	if !ok {
		return mark{}
	}
	m, ok := parseMark(text)
	if !ok || m.maker != s.Config.Name || m.name != markedName(object.RefOf(live)) {
		return mark{}
	}
	applied, err := s.FieldSets.Parse(m.paths)
	if err != nil {
		return mark{}
	}
	return mark{hash: m.hash, applied: applied}
}

// A markText is the text of a mark, taken apart.
type markText struct {
	maker string // the operator that made the mark
	name  string // of the object that the mark was made for: see markedName
	hash  jsonvalue.Digest
	paths string
}

// parseMark takes the text of a mark apart. It returns false if the text isn't that
// of a mark.
func parseMark(text string) (markText, bool) {
	if len(text) > 2*maxMark {
		return markText{}, false
	}
	parts := strings.SplitN(text, ":", 5)
	if len(parts) < 5 || parts[0] != markVersion {
		return markText{}, false
	}
	sum, err := hex.DecodeString(parts[3])
	if err != nil || len(sum) != len(jsonvalue.Digest{}) {
		return markText{}, false
	}
	return markText{maker: parts[1], name: parts[2], hash: jsonvalue.Digest(sum), paths: parts[4]}, true
}

// Gave says whether this operator has given an object a desired state, by the annotation.
func Gave(s *catalog.Settings, live *resource.Resource) bool { return readMark(s, live).applied != nil }

// Marked says whether an object carries a mark that this operator has made, on this
// object or on another one that it was copied from.
func Marked(s *catalog.Settings, live *resource.Resource) bool {
	text, _ := live.Annotation(s.Mark)
	m, ok := parseMark(text)
	return ok && m.maker == s.Config.Name
}

// ForeignMark says whether an object carries a mark that this operator hasn't made.
// Marks of operators with another Domain count as well. maker is the operator that
// made the mark.
func ForeignMark(s *catalog.Settings, live *resource.Resource) (maker string, foreign bool) {
	for name, text := range live.Annotations() {
		if !strings.HasSuffix(name, "/applied") {
			continue
		}
		if m, ok := parseMark(text); ok && m.maker != s.Config.Name {
			return m.maker, true
		}
	}
	return "", false
}

// MarkedElsewhere says whether an object carries the mark of an operator with another
// Domain, whatever that operator's name is.
func MarkedElsewhere(s *catalog.Settings, live *resource.Resource) bool {
	for name, text := range live.Annotations() {
		if _, ok := parseMark(text); ok && name != s.Mark && strings.HasSuffix(name, "/applied") {
			return true
		}
	}
	return false
}

// OperatorsElsewhere returns the names of the operators with other Domains whose labels
// an object carries.
func OperatorsElsewhere(s *catalog.Settings, live *resource.Resource) []string {
	var names []string
	for name := range live.Labels() {
		domain, ok := strings.CutSuffix(name, "/parent-uid")
		if !ok || name == s.Config.TrackingLabel {
			continue
		}
		if other, ok := live.Label(domain + "/operator"); ok {
			names = append(names, other)
		}
	}
	return names
}

// IsMadeFor says whether an object is a child of the parent whatever its labels say, as far as its metadata tell: the parent
// is its controller, and the operator's mark or ownership label is on it, and nobody else's.
func IsMadeFor(s *catalog.Settings, parent, res *resource.Resource) bool {
	owned, _ := res.Label(s.Config.OwnershipLabel)
	_, foreign := ForeignMark(s, res)
	return object.Controls(parent, res) && !foreign && len(OperatorsElsewhere(s, res)) == 0 && (owned == s.Config.Name || Marked(s, res))
}
