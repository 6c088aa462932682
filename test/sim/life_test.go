package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// lifeScript returns the script of the life of one parent. Nothing else happens meanwhile, and actions are
// half a minute apart, so only the order of events and responses can make a difference in the number of
// calls. Statuses, children and Finalize depend on attempts and time in some lives.
func lifeScript(seed uint64) *script {
	rng := rand.New(rand.NewPCG(seed, 54))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	s := &script{Replicas: 1, Options: []string{dense, counted}}
	option := func(one string, is bool) {
		if is {
			s.Options = append(s.Options, one)
		}
	}
	option(conditions, rng.IntN(2) == 0)
	option(noGeneration, rng.IntN(4) == 0)
	for range 3 {
		s.Strategies = append(s.Strategies, pick("Replace", "Recreate", "OnDelete"))
	}
	status := pick("", "none", "constant", "attempts", "seconds")
	sync := pick("", "", "", "error", "permanent", "delayed", "rejected", "random", "resync", "keep")
	final := pick("bare", "", "retry-late", "zero-status", "error")
	option(rejecting, sync == "rejected" || sync == "random")
	option(bareHandler, final == "bare")
	s.Actions = []action{
		{after, 0, "want", []string{"q0", "v"}},
		{after, 0, "behave", []string{"q0", "sync=" + sync, "final=" + final, "status=" + status}},
		{after, 0, "want", []string{"q0", "v", "ConfigMap/a"}},
	}
	const between = 33337 * time.Millisecond // no timer of the operator expires at the same instant
	for i := range 2 + rng.IntN(4) {
		verb := pick("want", "want", "label", "pause", "tamper", "delete", "clear-status")
		args := map[string][]string{
			"want": {"q0", fmt.Sprint("v", i), "ConfigMap/a"}, "label": {"Parent/q0", fmt.Sprint("v", i)}, "pause": {"Parent/q0", pick("true", "false")},
			"tamper": {"ConfigMap/a"}, "delete": {"ConfigMap/a"}, "clear-status": {"q0"},
		}[verb]
		s.Actions = append(s.Actions, action{after, between, verb, args})
	}
	last := between
	if final == "retry-late" && status == "attempts" {
		last = 2 * time.Second // the handler is called without a pause
	}
	s.Actions = append(s.Actions, action{after, between, "delete", []string{"Parent/q0"}}, action{after, last, "catch-up", nil})
	return s
}
