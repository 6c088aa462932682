package storm

import (
	"time"

	"github.com/roperator/roperator/internal/engine/lead"
)

// A pace is how long things take. In a bubble time is free.
type pace struct {
	divisor    time.Duration // of the times in scripts and of delays
	calmGap    time.Duration // between steps without faults
	lastFaults time.Duration // how long faults go on after the last step
	window     time.Duration // in which nobody may write; a watch that has failed may have to wait before it is tried again
	calmWindow time.Duration // the same where nothing fails
	maxResync  time.Duration // that is waited for
	leftovers  time.Duration // for goroutines that a handler has started, in the end
	maxWindows int           // how many there are at most until one is silent
	maxBackoff time.Duration // of a parent that fails
	restarting time.Duration // until another process starts
	awaited    time.Duration // how long a step waits for its object
	hang       time.Duration // until a connection on which nothing arrives breaks
	undo       time.Duration // until others put back what they have changed
	delay      time.Duration // of the controllers of other types
	shrinking  time.Duration // what may be spent on making a script shorter, of real time
	lease      lead.Config
}

func bubblePace() pace {
	return pace{
		divisor: 1, calmGap: time.Minute, lastFaults: 5 * time.Second, window: time.Minute, calmWindow: time.Minute, maxResync: 2 * time.Hour, leftovers: 24 * time.Hour, maxWindows: 30, maxBackoff: 20 * time.Second,
		shrinking: 20 * time.Second, restarting: 2 * time.Second, awaited: 5 * time.Minute, hang: 45 * time.Second, undo: 5 * time.Second, delay: time.Second,
		lease: lead.Config{LeaseDuration: 20 * time.Second, RenewDeadline: 15 * time.Second, RetryPeriod: 5 * time.Second},
	}
}

func livePace() pace {
	return pace{
		divisor: 10, calmGap: 1500 * time.Millisecond, lastFaults: time.Second, window: 8 * time.Second, calmWindow: 2 * time.Second, maxWindows: 10, maxBackoff: 2 * time.Second,
		shrinking: time.Minute, restarting: 200 * time.Millisecond, awaited: 10 * time.Second, hang: 3 * time.Second, undo: time.Second, delay: 200 * time.Millisecond,
		lease: lead.Config{LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond},
	}
}

// at returns a script at this pace.
func (p pace) at(s script) script {
	for i := range s.Gaps {
		s.Gaps[i] /= p.divisor
	}
	for i := range s.Acts {
		s.Acts[i].At /= p.divisor
		s.Acts[i].For /= p.divisor
	}
	return s
}
