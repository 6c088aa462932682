package storm

import (
	"slices"
	"testing"
	"time"

	"github.com/roperator/roperator/internal/testing/faults"
)

const (
	maxPlays = 300 // of scripts, to make one shorter
	tries    = 2   // of a script: in which order goroutines run isn't the script's to decide
)

// A shrinker leaves out of a script what a failure doesn't need.
type shrinker struct {
	storm  *storm
	t      *testing.T
	kinds  map[string]bool // of the violations
	ought  *outcome        // of the steps that are left
	best   *finding
	plays  int
	end    time.Time
	script script
}

// shrink leaves out of a finding what it doesn't need.
func (s *storm) shrink(t *testing.T, f *finding, ought *outcome) {
	k := &shrinker{storm: s, t: t, kinds: among(f.violations, Violation.kind), ought: ought, best: f, end: time.Now().Add(s.pace.shrinking), script: f.outcome.script}
	if !k.fails(k.script, ought) {
		return // it is a matter of the order in which goroutines run
	}
	for before := -1; before != k.size(); {
		before = k.size()
		faults.Reduce(len(k.script.Acts), func(from, to int) bool {
			sc := k.script
			sc.Acts = faults.Without(sc.Acts, from, to)
			return k.take(sc)
		})
		faults.Reduce(len(k.script.Faults), func(from, to int) bool {
			sc := k.script
			sc.Faults = faults.Without(sc.Faults, from, to)
			return k.take(sc)
		})
		k.fewerSteps()
		k.calmer()
	}
}

func (k *shrinker) size() int {
	return len(k.script.Acts) + len(k.script.Faults) + len(k.script.Order) + k.script.Replicas
}

// fewerSteps leaves out steps, as long as the others do without faults what they ought to.
func (k *shrinker) fewerSteps() {
	for i := len(k.script.Order) - 1; i >= 0 && len(k.script.Order) > 1; i-- {
		steps := slices.Sorted(slices.Values(faults.Without(k.script.Order, i, i+1)))
		if k.spent() {
			return
		}
		ought := k.storm.calmly(k.t, steps)
		if len(ought.violations) > 0 {
			continue
		}
		for _, sc := range k.script.withoutStep(i) {
			if k.fails(sc, ought) {
				k.ought, k.script = ought, sc
				break
			}
		}
	}
}

// withoutStep returns a script without the step at a place: one in which all others come at their
// time, and one in which those after it come earlier.
func (sc script) withoutStep(i int) []script {
	dropped := sc.Order[i]
	sooner := sc
	sooner.Order = faults.Without(sc.Order, i, i+1)
	if i == len(sooner.Order) {
		return []script{sooner}
	}
	sameTime := sooner
	sameTime.Gaps = slices.Clone(sc.Gaps)
	sameTime.Gaps[sooner.Order[i]] += sc.Gaps[dropped]
	return []script{sameTime, sooner}
}

// shrinkCalm leaves out steps of a finding that needs no fault.
func (s *storm) shrinkCalm(t *testing.T, f *finding) *finding {
	steps := s.allSteps()
	for i := len(steps) - 1; i >= 0 && len(steps) > 1 && s.cfg.Live == nil; i-- {
		fewer := faults.Without(steps, i, i+1)
		less := s.judgeCalm(t, s.calmly(t, fewer), fewer)
		if less != nil && overlaps(among(less.violations, Violation.kindAndSubject), among(f.violations, Violation.kindAndSubject)) {
			f, steps = less, fewer
		}
	}
	return f
}

// calmer tries one process, and steps that come as slowly as without faults.
func (k *shrinker) calmer() {
	if k.script.Replicas > 1 {
		sc := k.script
		sc.Replicas = 1
		k.take(sc)
	}
	for i, gap := range k.script.Gaps {
		if gap == k.storm.pace.calmGap || !slices.Contains(k.script.Order, i) {
			continue
		}
		sc := k.script
		sc.Gaps = slices.Clone(sc.Gaps)
		sc.Gaps[i] = k.storm.pace.calmGap
		k.take(sc)
	}
}

func (k *shrinker) spent() bool { return k.plays >= maxPlays || time.Now().After(k.end) }

// take makes a script the one that is left, if it fails.
func (k *shrinker) take(sc script) bool {
	if !k.fails(sc, k.ought) {
		return false
	}
	k.script = sc
	return true
}

// fails says whether a script fails as the one does that was found.
func (k *shrinker) fails(sc script, ought *outcome) bool {
	for range tries {
		if k.spent() {
			return false
		}
		k.plays++
		out := k.storm.play(k.t, sc, played(sc.Faults), false)
		violations := out.against(ought)
		if overlaps(among(violations, Violation.kind), k.kinds) {
			k.best.outcome, k.best.violations = out, violations
			k.best.outcome.script.Order = sc.Order
			return true
		}
	}
	return false
}
