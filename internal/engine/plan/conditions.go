package plan

import (
	"fmt"
	"time"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// A conditionTime is the time that a condition of a status was given, since the live one
// has none, or another status.
type conditionTime struct {
	status string
	time   string
	live   jsonvalue.Digest // of the live condition at that time
}

// CheckConditions says what is wrong with the conditions of a handler's status, nil if
// nothing is.
func CheckConditions(status any) error {
	for i, c := range conditionsOf(status) {
		if reason, isText := c.fields["reason"].(string); c.fields != nil && reason == "" && (isText || c.fields["reason"] == nil) {
			return fmt.Errorf("conditions[%d]: %s: reason: missing; every condition needs one, a word in CamelCase", i, c.name)
		}
	}
	return nil
}

// CompleteConditions fills in what a handler has left out of the conditions of a status, so
// that the handler needs neither a clock nor the former status:
//
//   - lastTransitionTime: the live one's if that has the same status, else now. A zero now
//     isn't filled in.
//   - observedGeneration: generation, unless that is 0.
//   - message: "".
//
// A list in which an item has no type and status isn't one of conditions, and that item
// stays as it is. live is the present status. The times that are given are remembered until
// the live status has them: a refused write is repeated as it was.
func (p *ParentMemory) CompleteConditions(status, live any, generation int64, now time.Time) {
	var times map[conditionKey]conditionTime
	before := map[conditionKey]map[string]any{}
	for _, c := range conditionsOf(live) {
		if c.fields != nil {
			before[c.conditionKey] = c.fields
		}
	}
	for _, c := range conditionsOf(status) {
		if c.fields == nil {
			continue
		}
		if c.fields["message"] == nil {
			c.fields["message"] = ""
		}
		if c.fields["observedGeneration"] == nil && generation > 0 {
			c.fields["observedGeneration"] = generation
		}
		if c.fields["lastTransitionTime"] != nil {
			continue
		}
		was := before[c.conditionKey]
		if at := was["lastTransitionTime"]; at != nil && was["status"] == c.status {
			c.fields["lastTransitionTime"] = at
			continue
		}
		given, ok := p.conditions[c.conditionKey]
		if sum := jsonvalue.Sum(was); !ok || given.status != c.status || given.live != sum {
			if now.IsZero() {
				continue
			}
			given = conditionTime{c.status, now.UTC().Format(time.RFC3339), sum}
		}
		if times == nil {
			times = map[conditionKey]conditionTime{}
		}
		c.fields["lastTransitionTime"], times[c.conditionKey] = given.time, given
	}
	p.conditions = times
}

// A conditionKey tells the conditions of a status apart. There may be several of a type,
// if the list is one of conditions by other keys, too.
type conditionKey struct {
	name string // the type
	nth  int    // of those of this type
}

// A condition is an item of a list of conditions.
type condition struct {
	conditionKey
	status string
	fields map[string]any // nil: it is none
}

// conditionsOf returns the items of the list "conditions" of a status, which has JSON
// values. It returns none if there is no such list.
func conditionsOf(status any) []condition {
	fields, _ := status.(map[string]any)
	list, _ := fields["conditions"].([]any)
	out := make([]condition, len(list))
	seen := make(map[string]int, len(list))
	for i, item := range list {
		fields, _ := item.(map[string]any)
		name, named := fields["type"].(string)
		status, stated := fields["status"].(string)
		if named && stated {
			out[i] = condition{conditionKey{name, seen[name]}, status, fields}
			seen[name]++
		}
	}
	return out
}
