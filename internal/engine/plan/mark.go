package plan

import (
	"encoding/hex"
	"strings"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// maxMark bounds the mark on a child, in bytes.
const maxMark = 16 << 10

// A mark is what the engine writes on a child, in the annotation <Domain>/applied,
// about the desired state that the child was last given. By the fields, a later
// build of the operator knows what to remove. By the hash, a restarted operator
// knows that the API server has accepted the desired state.
type mark struct {
	hash    jsonvalue.Digest // of the desired state: see Desired.Hash
	applied *merge.FieldSet  // the fields of the desired state
}

// markVersion is how a mark begins. Another format will have another version.
const markVersion = "v1"

// newMark returns the text of the mark that a child is given with d.
func newMark(d *Desired) string {
	head := markVersion + ":" + d.hash.String() + ":"
	return head + merge.NewFieldSet(d.object, d.kind.Comparison.Schema).Encode(maxMark-len(head))
}

// readMark reads the mark of a live child. If the mark is missing or can't be read,
// readMark returns the zero mark, by which no field is removed.
func readMark(s *catalog.Settings, live *resource.Resource) mark {
	text, ok := live.Annotation(s.Mark)
	if !ok || len(text) > 2*maxMark {
		return mark{}
	}
	version, rest, ok1 := strings.Cut(text, ":")
	hash, paths, ok2 := strings.Cut(rest, ":")
	if !ok1 || !ok2 || version != markVersion {
		return mark{}
	}
	sum, err := hex.DecodeString(hash)
	if err != nil || len(sum) != len(jsonvalue.Digest{}) {
		return mark{}
	}
	a, err := merge.ParseFieldSet(paths)
	if err != nil {
		return mark{}
	}
	return mark{hash: jsonvalue.Digest(sum), applied: a}
}
