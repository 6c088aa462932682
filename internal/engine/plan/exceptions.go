package plan

import (
	"bytes"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

const (
	// maxExceptions is up to how many normalized fields of one child are remembered
	// one by one. More of them are remembered in groups.
	maxExceptions = 500
	// exceptionGroups is the number of groups, which bounds the memory that the
	// normalized fields of one child take.
	exceptionGroups = 512
)

// An exceptions says of which fields of a child the API server, or a webhook, made
// something else when it was sent the desired values. nil says it of no field.
type exceptions struct {
	// fields has the digest of both values by path; nil: there are more than
	// maxExceptions, and groups has them.
	fields map[string]exception
	// groups has a digest of all fields of a group. In which group a field is
	// depends on its path. If one field of a group changes, all are unexplained.
	groups map[uint16]jsonvalue.Digest
	// words is the digest of that by which webhooks select objects: see wordsOf.
	words jsonvalue.Digest
	// confirmed means that an update with the desired values leads to the same. A
	// webhook may have changed them when the child was created, and leave updates
	// alone.
	confirmed bool
}

// An exception is a field of which the API server made the value live when it was
// sent the value desired.
type exception struct{ desired, live jsonvalue.Digest }

// newExceptions returns the exceptions of a child that differs from the desired state
// in rest. words is the digest of wordsOf.
func newExceptions(rest []merge.Difference, words jsonvalue.Digest) *exceptions {
	e := &exceptions{words: words}
	if len(rest) > maxExceptions {
		e.groups = groupsOf(rest)
		return e
	}
	e.fields = make(map[string]exception, len(rest))
	for _, diff := range rest {
		e.fields[diff.Path] = exceptionOf(diff)
	}
	return e
}

// exceptionOf returns the exception that explains a difference.
func exceptionOf(d merge.Difference) exception {
	return exception{desired: jsonvalue.Sum(d.Desired), live: jsonvalue.Sum(d.Live)}
}

// groupOf returns the group of the field at a path.
func groupOf(path string) uint16 {
	sum := jsonvalue.Sum(path)
	return (uint16(sum[0])<<8 | uint16(sum[1])) % exceptionGroups
}

// groupsOf returns the digests of the groups in which the fields of rest are.
func groupsOf(rest []merge.Difference) map[uint16]jsonvalue.Digest {
	members := map[uint16][][]byte{}
	for _, diff := range rest {
		e, path := exceptionOf(diff), jsonvalue.Sum(diff.Path)
		group := groupOf(diff.Path)
		members[group] = append(members[group], slices.Concat(path[:], e.desired[:], e.live[:]))
	}
	groups := make(map[uint16]jsonvalue.Digest, len(members))
	for group, sums := range members {
		slices.SortFunc(sums, bytes.Compare)
		groups[group] = jsonvalue.Sum(hex.EncodeToString(bytes.Join(sums, nil)))
	}
	return groups
}

// split splits differences into those that the exceptions explain and the others.
// Both lists keep the order.
func (e *exceptions) split(diffs []merge.Difference) (explained, others []merge.Difference) {
	if e == nil {
		return nil, diffs
	}
	var now map[uint16]jsonvalue.Digest
	if e.groups != nil {
		now = groupsOf(slices.DeleteFunc(slices.Clone(diffs), func(d merge.Difference) bool { return d.Removed }))
	}
	for _, d := range diffs {
		if !d.Removed && e.has(d, now) {
			explained = append(explained, d)
		} else {
			others = append(others, d)
		}
	}
	return explained, others
}

// has says whether the exceptions explain a difference. now are the groups of all
// differences that the child has.
func (e *exceptions) has(d merge.Difference, now map[uint16]jsonvalue.Digest) bool {
	if e.groups == nil {
		known, ok := e.fields[d.Path]
		return ok && known == exceptionOf(d)
	}
	group := groupOf(d.Path)
	known, ok := e.groups[group]
	return ok && known == now[group]
}

// stale says whether a webhook may treat the child otherwise than when the
// exceptions were learned: somebody has changed that by which webhooks select
// objects. It returns false for nil.
func (e *exceptions) stale(live *resource.Resource) bool { return e != nil && e.words != wordsOf(live) }

// wordsOf returns a digest of that by which webhooks select objects: the labels, and
// which annotations there are. Annotations of Kubernetes' own don't count: these
// are what controllers note for themselves.
func wordsOf(live *resource.Resource) jsonvalue.Digest {
	names := slices.Sorted(maps.Keys(live.Annotations()))
	names = slices.DeleteFunc(names, func(name string) bool {
		domain, _, _ := strings.Cut(name, "/")
		return strings.HasSuffix(domain, "kubernetes.io") || strings.HasSuffix(domain, "k8s.io")
	})
	return jsonvalue.Sum([]any{live.Labels(), names})
}

// certain says whether an explained difference would stay the same whatever a webhook
// does today: both values are the same quantity, the desired value says nothing, or
// nothing was stored.
func certain(d merge.Difference) bool {
	switch want := d.Desired.(type) {
	case string:
		return want == "" || d.Live == nil || sameQuantity(want, d.Live)
	case int64:
		return want == 0 || d.Live == nil
	case bool:
		return !want || d.Live == nil
	case map[string]any:
		return len(want) == 0 || d.Live == nil
	case []any:
		return len(want) == 0 || d.Live == nil
	}
	return d.Live == nil
}

// sameQuantity says whether two values are the same quantity, such as 1000m and 1.
func sameQuantity(want string, live any) bool {
	have, ok := live.(string)
	if !ok {
		return false
	}
	a, err := apiresource.ParseQuantity(want)
	if err != nil {
		return false
	}
	b, err := apiresource.ParseQuantity(have)
	return err == nil && a.Cmp(b) == 0
}
