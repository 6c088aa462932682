package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// sparseScript returns the long and sparse script of a seed: what users, other controllers and the garbage
// collector do within minutes.
func sparseScript(seed uint64) *script {
	rng := rand.New(rand.NewPCG(seed, 2))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	s := &script{Replicas: 1}
	if rng.IntN(4) == 0 {
		s.Replicas = 2
	}
	for range 3 {
		s.Strategies = append(s.Strategies, pick("Replace", "Recreate", "OnDelete"))
	}
	for _, option := range []string{inNamespaces, withSelector, byLists, inPages} {
		if rng.IntN(3) == 0 {
			s.Options = append(s.Options, option)
		}
	}
	parents := 1 + rng.IntN(4)
	parent := func() string { return fmt.Sprint("p", rng.IntN(parents)) }
	child := func() string {
		return pick("ConfigMap/"+parent()+"-"+pick("0", "1", "2"), "Secret/"+parent(), "Part/"+parent())
	}
	value := func() string { return fmt.Sprint("v", rng.IntN(6)) }
	verbs := []func() []string{
		func() []string { return []string{"create", parent(), value(), pick("0", "1", "2", "3")} },
		func() []string { return []string{"create", parent(), value(), pick("1", "2", "3")} },
		func() []string { return []string{"set", parent(), value(), pick("0", "1", "2", "3")} },
		func() []string { return []string{"set", parent(), value(), pick("1", "2", "3")} },
		func() []string { return []string{"delete", "Parent/" + parent()} },
		func() []string { return []string{"label", "Parent/" + parent(), value()} },
		func() []string { return []string{"hold", "Parent/" + parent()} },
		func() []string { return []string{"let-go", "Parent/" + parent()} },
		func() []string { return []string{"put-aside", "Parent/" + parent(), pick("true", "true", "false")} },
		func() []string { return []string{"clear-status", parent()} },
		func() []string { return []string{"tamper", child()} },
		func() []string { return []string{"label", child(), value()} },
		func() []string { return []string{"strip", child()} },
		func() []string { return []string{"orphan", child()} },
		func() []string { return []string{"unmark", child()} },
		func() []string { return []string{"delete", child()} },
		func() []string { return []string{"replace", child()} },
		func() []string { return []string{"revert", child()} },
		func() []string { return []string{"hold", child()} },
		func() []string { return []string{"let-go", child()} },
		func() []string { return []string{"occupy", child()} },
		func() []string { return []string{"copy", child()} },
		func() []string { return []string{"compact"} },
		func() []string { return []string{"break-watches"} },
		func() []string { return []string{"bookmark"} },
		func() []string { return []string{"outage", fmt.Sprint(1+rng.IntN(40), "s")} },
		func() []string { return []string{"kill", fmt.Sprint("replica-", rng.IntN(s.Replicas))} },
		func() []string { return []string{"stop", fmt.Sprint("replica-", rng.IntN(s.Replicas))} },
		func() []string {
			return []string{"cut-lease", fmt.Sprint("replica-", rng.IntN(s.Replicas)), fmt.Sprint(12+rng.IntN(30), "s")}
		},
		func() []string { return []string{"delete", "Parent/" + parent()} },
		func() []string { return []string{"delete-in-foreground", "Parent/" + parent()} },
		func() []string { return []string{"lag", pick("Parent", "ConfigMap", "Secret", "Part")} },
		func() []string { return []string{"catch-up"} },
	}
	length := time.Duration(10+rng.IntN(110)) * time.Second
	for range 5 + rng.IntN(40) {
		words := verbs[rng.IntN(len(verbs))]()
		when := time.Duration(rng.Int64N(int64(length))).Round(time.Millisecond)
		s.Actions = append(s.Actions, action{When: at, At: when, Verb: words[0], Args: words[1:]})
		if undo := map[string]string{"hold": "let-go", "tamper": "revert"}[words[0]]; undo != "" && rng.IntN(2) == 0 {
			s.Actions = append(s.Actions, action{When: at, At: when + time.Duration(1+rng.IntN(20))*time.Second, Verb: undo, Args: words[1:]})
		}
	}
	for i := range parents { // each exists at first, from before the operator started or not
		when := time.Duration(rng.IntN(2)) * time.Second
		s.Actions = append(s.Actions, action{When: at, At: when, Verb: "create", Args: []string{fmt.Sprint("p", i), value(), pick("1", "2", "3")}})
	}
	if rng := rand.New(rand.NewPCG(seed, 3)); rng.IntN(4) > 0 {
		s.Options = append(s.Options, withRelated)
		s.Actions = append(s.Actions, relatedActions(rng, parents, length)...)
	}
	rng = rand.New(rand.NewPCG(seed, 4))
	if rng.IntN(2) == 0 {
		s.Options = append(s.Options, withReadiness)
		s.Actions = append(s.Actions, readinessActions(rng, parents, length)...)
	}
	for _, option := range []string{twoAtOnce, withTeardown, inChain} {
		if rng.IntN(3) == 0 {
			s.Options = append(s.Options, option)
		}
	}
	if rng := rand.New(rand.NewPCG(seed, 5)); rng.IntN(4) == 0 {
		s.share(rng, length)
	}
	if s.is(inNamespaces) { // one that isn't theirs
		s.Actions = append(s.Actions, action{When: at, Verb: "create", Args: []string{"p4", value(), "2"}})
	}
	slices.SortStableFunc(s.Actions, func(a, b action) int { return int(a.At - b.At) })
	s.setOrder(seed)
	return s
}

// share lets the replicas share the parents, and come and go more often.
func (s *script) share(rng *rand.Rand, length time.Duration) {
	s.Replicas = 2 + rng.IntN(2)
	s.Options = append(s.Options, withShards)
	if rng.IntN(2) == 0 {
		s.Options = append(s.Options, dividing)
		s.Actions = append(s.Actions, action{When: at, At: time.Duration(5+rng.IntN(20)) * time.Second, Verb: []string{"kill", "stop"}[rng.IntN(2)], Args: []string{"replica-0"}})
	}
	for range 1 + rng.IntN(5) {
		a := action{When: at, At: time.Duration(rng.Int64N(int64(length))).Round(time.Millisecond), Args: []string{fmt.Sprint("replica-", rng.IntN(s.Replicas))}}
		if a.Verb = []string{"kill", "stop", "cut-lease"}[rng.IntN(3)]; a.Verb == "cut-lease" {
			a.Args = append(a.Args, fmt.Sprint(12+rng.IntN(30), "s"))
		}
		s.Actions = append(s.Actions, a)
	}
}
