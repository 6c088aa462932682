// Package logbuffer keeps a log that nobody reads from holding up whoever writes it: a
// pipe whose reader has stopped blocks each write for ever once it is full.
//
//	w := logbuffer.New(os.Stderr, notice)
//	defer w.Close(time.Second)
//	log := slog.New(slog.NewTextHandler(w, nil))
//
// As long as the log flows, a line is out when the call that logs it returns, so that
// nothing is missing after a crash. Only when it doesn't, lines are buffered, and then
// dropped. How many were is written in their place.
//
// New starts one goroutine, the only one that writes to the log. Close ends it. If the
// log still blocks then, the goroutine stays behind until it doesn't.
//
// The package imports nothing of this module.
package logbuffer
