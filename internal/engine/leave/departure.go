package leave

import "github.com/roperator/roperator/internal/engine/lead"

// A Departure is what became of the operators that leave.
type Departure struct {
	Surveys []Survey // what there was
	Agreed  bool     // otherwise nothing was written
	Left    []Left   // what is left, operator by operator
	// Standing says whether an operator works in the end, and Holder who it is.
	Standing lead.Standing
	Holder   string
	Stuck    bool // parents wait for an operator, and none works
	Paused   bool // parents that stay are paused, since an operator works
}
