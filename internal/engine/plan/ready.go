package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/jsonvalue"
)

// The conditions Ready, Reconciling and Stalled that the engine keeps in the status of a parent:
// see config.Operator.ReadyCondition.

// A Standing says what is in the way of a parent, if anything is.
type Standing struct {
	// State is Current if nothing is in the way, Failed if somebody has to act, and InProgress
	// if the engine goes on by itself.
	State   readiness.State
	Reason  string // one of those below
	Message string
}

// The reasons of a Standing.
const (
	ReasonReady           = "Ready"           // nothing is in the way
	ReasonProgressing     = "Progressing"     // children were written, and the next pass follows
	ReasonChildNotReady   = "ChildNotReady"   // a child isn't Current
	ReasonChildFailed     = "ChildFailed"     // a child is Failed
	ReasonWaiting         = "Waiting"         // something has to come first
	ReasonWriteFailed     = "WriteFailed"     // a write has failed and is tried again
	ReasonWriteRefused    = "WriteRefused"    // the API server has refused a write
	ReasonHandlerFailed   = "HandlerFailed"   // the handler has failed, or the pass before it
	ReasonInvalidResponse = "InvalidResponse" // the handler has returned what can't be
	ReasonConflictLoop    = "ConflictLoop"    // what the engine writes doesn't last
	ReasonPaused          = "Paused"          // the parent is paused
	ReasonDeleting        = "Deleting"        // the parent is being deleted
)

// The conditions, by their indexes in what is said of all of them, in the order in which they are
// added to a status.
const (
	atReady = iota
	atReconciling
	atStalled
	keptConditions // how many there are
)

// keptName returns the name of the condition at an index.
func keptName(i int) string { return [...]string{"Ready", "Reconciling", "Stalled"}[i] }

// keptAt returns the index of a condition, -1 if it is none of those.
func keptAt(name string) int {
	for i := range keptConditions {
		if keptName(i) == name {
			return i
		}
	}
	return -1
}

// CheckKeepsConditions says why SetStanding can't write to a handler's status, or doesn't understand what it says of the
// same conditions; nil if it can and does. What can't be read would be taken for nothing.
func CheckKeepsConditions(status any) error {
	fields, ok := status.(map[string]any)
	if !ok {
		return errors.New("is no object, so ReadyCondition has nowhere to keep its conditions")
	}
	list, ok := fields["conditions"].([]any)
	if !ok && fields["conditions"] != nil {
		return errors.New("conditions: is no list, so ReadyCondition has nowhere to keep its conditions")
	}
	var seen [keptConditions]bool
	for n, item := range list {
		i := keptIndex(item)
		if i < 0 {
			continue
		}
		condition, _ := item.(map[string]any)
		if _, isText := condition["status"].(string); !isText {
			return fmt.Errorf("conditions[%d]: %s: status: must be one of the texts True, False and Unknown", n, condition["type"])
		}
		if seen[i] {
			return fmt.Errorf("conditions[%d]: %s: there is another condition of this type", n, condition["type"])
		}
		seen[i] = true
	}
	return nil
}

// KeepingConditions returns a present status without what keeps SetStanding from writing to it, whoever wrote that: of
// each of its conditions the first one counts that can be read. A status that is no object becomes an empty one. It leaves
// status as it is, but shares what is in it.
func KeepingConditions(status any) map[string]any {
	fields, _ := status.(map[string]any)
	if fields == nil {
		return map[string]any{}
	}
	if CheckKeepsConditions(fields) == nil {
		return fields
	}
	fields = maps.Clone(fields)
	list, ok := fields["conditions"].([]any)
	if !ok {
		delete(fields, "conditions")
		return fields
	}
	var kept []any
	for _, item := range list {
		if CheckKeepsConditions(map[string]any{"conditions": append(slices.Clip(kept), item)}) == nil {
			kept = append(kept, item)
		}
	}
	fields["conditions"] = kept
	return fields
}

// SetStanding writes the conditions of a parent at this generation to its new status, which
// CheckKeepsConditions must have allowed. live is the present status. handlers says that the
// new status is the handler's. Then its own Ready, Reconciling and Stalled count as well: what
// it says is in the way, and, if nothing is, in which words it says so.
func SetStanding(status map[string]any, s Standing, live any, generation int64, handlers bool) {
	var own [keptConditions]stated
	if handlers {
		own = ownConditions(status, live)
	}
	list, _ := status["conditions"].([]any)
	out := make([]any, 0, len(list)+keptConditions)
	var done [keptConditions]bool
	now := s.conditions(own)
	for _, item := range list {
		i := keptIndex(item)
		switch {
		case i < 0:
			out = append(out, item)
		case !done[i]:
			out, done[i] = append(out, now[i].fields(keptName(i), generation)), true
		}
	}
	for i := range keptConditions {
		if !done[i] {
			out = append(out, now[i].fields(keptName(i), generation))
		}
	}
	status["conditions"] = out
}

// A stated is what a condition says. The zero stated says nothing.
type stated struct{ status, reason, message string }

func (c stated) fields(name string, generation int64) map[string]any {
	out := map[string]any{"type": name, "status": c.status, "reason": c.reason, "message": c.message}
	if generation > 0 {
		out["observedGeneration"] = generation
	}
	return out
}

// conditions returns what the conditions say. own are those of the handler.
func (s Standing) conditions(own [keptConditions]stated) (out [keptConditions]stated) {
	out[atReady] = stated{"False", s.Reason, s.Message}
	for i, in := range map[int]readiness.State{atReconciling: readiness.InProgress, atStalled: readiness.Failed} {
		out[i] = stated{"False", s.Reason, ""}
		switch {
		case s.State == in:
			out[i] = stated{"True", s.Reason, s.Message}
		case own[i].status == "True":
			out[i] = own[i]
		}
	}
	if s.State != readiness.Current {
		return out
	}
	switch {
	case own[atStalled].status == "True":
		out[atReady] = readyBeside(atStalled, own[atStalled])
	case own[atReconciling].status == "True":
		out[atReady] = readyBeside(atReconciling, own[atReconciling])
	case own[atReady].status != "":
		out[atReady] = own[atReady]
	default:
		out[atReady].status = "True"
	}
	return out
}

// readyBeside returns what Ready says where nothing is in the engine's way, and the handler says that something is:
// its condition at i is True.
func readyBeside(i int, handlers stated) stated {
	return stated{"False", handlers.reason, strings.ToLower(keptName(i)) + ": " + handlers.message}
}

// ownConditions returns what the conditions of a handler's status say that the engine keeps.
// Many handlers start from the present status. So what the engine has written there itself,
// and is returned as it was, isn't the handler's. The engine's own Ready says the same as
// its Reconciling or Stalled does, or what readyBeside makes of the handler's. One that it has from the
// handler says more, or is beside none of these.
func ownConditions(status, live any) (own [keptConditions]stated) {
	was := statedIn(live)
	var engines [keptConditions]bool
	for _, i := range []int{atReconciling, atStalled} {
		switch {
		case was[i].status != "True":
		case was[atReady] == stated{"False", was[i].reason, was[i].message}:
			engines[i], engines[atReady] = true, true
		case was[atReady] == readyBeside(i, was[i]):
			engines[atReady] = true
		}
	}
	own = statedIn(status)
	for i := range own {
		if engines[i] && own[i] == was[i] {
			own[i] = stated{}
		}
	}
	return own
}

// statedIn returns what the conditions of a status say that the engine keeps.
func statedIn(status any) (out [keptConditions]stated) {
	for _, c := range conditionsOf(status) {
		if i := keptAt(c.name); c.fields != nil && i >= 0 && c.nth == 0 {
			out[i] = c.stated()
		}
	}
	return out
}

func (c condition) stated() stated {
	reason, _ := c.fields["reason"].(string)
	message, _ := c.fields["message"].(string)
	return stated{c.status, reason, message}
}

// keptIndex returns the index of the condition that an item of a list of conditions is, -1 if it is
// none of those.
func keptIndex(item any) int {
	fields, _ := item.(map[string]any)
	name, _ := fields["type"].(string)
	return keptAt(name)
}

// KeepsStanding says whether a status has what SetStanding has written to it.
func KeepsStanding(status any) bool { return statedIn(status)[atReady].status != "" }

// IsPaused says whether a status tells that its parent is paused.
func IsPaused(status any) bool {
	says := statedIn(status)[atStalled]
	return says.status == "True" && says.reason == ReasonPaused
}

// IsInTheWay says whether a status tells that something is in the way of this generation of its parent.
func IsInTheWay(status any, generation int64) bool {
	for _, c := range conditionsOf(status) {
		if c.fields != nil && c.nth == 0 && keptAt(c.name) == atReady {
			return c.status == "False" && c.fields["observedGeneration"] == any(generation)
		}
	}
	return false
}

// OnlyTellsOfLoop says whether two statuses differ only in what the engine keeps, and one of them tells
// of a conflict loop.
func OnlyTellsOfLoop(one, other any) bool {
	tells := func(status any) bool { return statedIn(status)[atStalled].reason == ReasonConflictLoop }
	return tells(one) != tells(other) && jsonvalue.Equal(handlersPart(one), handlersPart(other))
}

// handlersPart returns a status without what the engine keeps in it.
func handlersPart(status any) any {
	fields, ok := status.(map[string]any)
	if !ok {
		return status
	}
	out := maps.Clone(fields)
	delete(out, "observedGeneration")
	list, _ := fields["conditions"].([]any)
	if list = slices.DeleteFunc(slices.Clone(list), func(item any) bool { return keptIndex(item) >= 0 }); len(list) > 0 {
		out["conditions"] = list
	} else {
		delete(out, "conditions")
	}
	return out
}

// StatusState returns a digest of a status without observedGeneration and the times of its conditions: two writes with the
// same digest give the status the same state.
func StatusState(status any) jsonvalue.Digest {
	fields, ok := status.(map[string]any)
	if !ok {
		return jsonvalue.Sum(status)
	}
	out := maps.Clone(fields)
	delete(out, "observedGeneration")
	if list, ok := fields["conditions"].([]any); ok {
		bare := make([]any, 0, len(list))
		for _, item := range list {
			if c, ok := item.(map[string]any); ok {
				c = maps.Clone(c)
				delete(c, "lastTransitionTime")
				delete(c, "observedGeneration")
				item = c
			}
			bare = append(bare, item)
		}
		out["conditions"] = bare
	}
	return jsonvalue.Sum(out)
}
