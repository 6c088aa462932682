package faults

import "strconv"

// What things may meet. A request may also meet an error of the API server, which is its code.
const (
	Late        = "late"         // nothing but its delay
	LateBefore  = "late-before"  // it arrives late, whatever has become of its sender
	LateAfter   = "late-after"   // it is carried out at once, and its answer is late
	KillBefore  = "kill-before"  // the process ends before the thing is done
	KillAfter   = "kill-after"   // it ends when it is done, before it knows
	BreakBefore = "break-before" // the connection breaks, nothing was done
	BreakAfter  = "break-after"  // the connection breaks, it was done
	CutAnswer   = "cut-answer"   // half of the answer arrives
	FailAfter   = "500-after"    // it was done, and the answer is that it failed
	TimeAfter   = "504-after"    // the same, as a timeout
	Twice       = "twice"        // it is done twice
	PageMissing = "page-404"     // a proxy answers that there is no such page
	PageFine    = "page-200"     // a proxy answers with a page on which people sign in
	Hollow      = "hollow"       // the API server answers that it is done, and does nothing
)

// What a frame of a watch may meet.
const (
	End  = "end"  // the server ends the watch
	Half = "half" // half of the frame arrives, then the connection breaks
	Gone = "410"  // the watch ends with 410
	Hang = "hang" // nothing more arrives until the connection breaks
)

// Again is what a frame meets that is told once more, with the frames after it, when there are n of
// them: as by a server that has fallen back to an older state.
func Again(n int) string { return again + strconv.Itoa(n) }

const again = "again-"
