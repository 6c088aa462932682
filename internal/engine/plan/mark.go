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

// A mark is what the engine writes on a child (annotation <Domain>/applied):
// which desired state the child was last given, so that a later build of the
// operator knows what to remove, and a restarted one knows what was accepted.
type mark struct {
	hash    jsonvalue.Digest
	applied *merge.FieldSet
}

// markVersion is how a mark begins, so that later ones may look different.
const markVersion = "v1"

// newMark returns the mark that a child is given with its desired state.
func newMark(d *Desired) string {
	head := markVersion + ":" + d.Hash.String() + ":"
	return head + merge.NewFieldSet(d.Object, d.kind.Comparison.Schema).Encode(maxMark-len(head))
}

// readMark reads a child's mark. One that is missing or was tampered with is
// the mark of nothing: nothing is removed on its word.
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
