package merge

import (
	"slices"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// An itemIndex finds items in a list.
type itemIndex struct {
	list  []any
	key   *listKey            // items with equal keys are equal; nil: items with equal values are
	texts map[string]struct{} // the texts of all items; nil until contains needs them
}

// contains says whether the list has an equal item. Items of the list that are nil
// count as missing. contains looks at index hint first.
func (x *itemIndex) contains(item any, hint int) bool {
	if hint < len(x.list) && x.equal(x.list[hint], item) {
		return true
	}
	if len(x.list) <= smallList {
		return slices.ContainsFunc(x.list, func(other any) bool { return x.equal(other, item) })
	}
	if x.texts == nil {
		x.texts = make(map[string]struct{}, len(x.list))
		for _, other := range x.list {
			if other != nil {
				x.texts[string(x.appendText(nil, other))] = struct{}{}
			}
		}
	}
	var scratch [64]byte
	_, ok := x.texts[string(x.appendText(scratch[:0], item))]
	return ok
}

// equal says whether an item of the list equals another item.
func (x *itemIndex) equal(listed, item any) bool {
	if listed == nil {
		return false
	}
	if x.key == nil {
		return jsonvalue.Equal(listed, item)
	}
	return x.key.equal(listed, item)
}

// add appends an item to the list. Nobody else may use the list.
func (x *itemIndex) add(item any) {
	x.list = append(x.list, item)
	if x.texts != nil {
		x.texts[string(x.appendText(nil, item))] = struct{}{}
	}
}

// appendText appends a text that equal items have in common, and no others.
func (x *itemIndex) appendText(b []byte, item any) []byte {
	if x.key == nil {
		return appendValueText(b, item)
	}
	return x.key.appendText(b, item)
}
