package faults

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"
)

// A Link is the connection of a process to the API server. Its functions are called while a
// request is carried. Those that are nil aren't.
type Link struct {
	Process *Process
	Dice    *Dice
	Hang    time.Duration                                      // until a connection on which nothing arrives breaks
	Serve   func(x *Exchange, f Fault) (*http.Response, error) // has the API server carry it out; never nil

	Unreachable func(x *Exchange) bool                   // the API server can't be reached for it now
	Told        func(x *Exchange, code int, body []byte) // all of the answer is about to reach the process
	Frame       func(x *Exchange, frame []byte) Fault    // what a frame of a watch meets
	Opened      func(x *Exchange)                        // a watch is about to begin
	Closed      func(x *Exchange)                        // a watch that has begun was closed
}

// Carry carries a request to the API server, and its answer back, as far as a fault lets it.
func (l *Link) Carry(x *Exchange, f Fault) (*http.Response, error) {
	before, after, sent := f.Delay/2, f.Delay-f.Delay/2, x
	switch f.Outcome {
	case LateBefore:
		before, after, sent = f.Delay, 0, x.onItsOwn()
	case LateAfter:
		before, after = 0, f.Delay
	}
	if err := l.Process.Sleep(sent.Context(), before); err != nil {
		return nil, err
	}
	if l.Unreachable != nil && l.Unreachable(x) {
		return nil, Broken("connection refused")
	}
	if resp, err := l.instead(x, f.Outcome); resp != nil || err != nil {
		return resp, err
	}
	resp, err := l.Serve(sent, f)
	if err != nil {
		return nil, err
	}
	if err := l.Process.Sleep(x.Context(), after); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return l.answer(x, f.Outcome, resp)
}

// instead returns what the process gets in place of an answer of the API server, nil if that
// answers.
func (l *Link) instead(x *Exchange, outcome string) (*http.Response, error) {
	switch outcome {
	case KillBefore:
		l.Process.Kill()
		return nil, ErrDead
	case BreakBefore:
		return nil, Broken("connection reset by peer")
	case PageMissing:
		return x.Answer(http.StatusNotFound, "text/html", "<html>no such page</html>"), nil
	case PageFine:
		return x.Answer(http.StatusOK, "text/html", "<html>sign in</html>"), nil
	case Hollow:
		return x.Answer(http.StatusOK, "application/json", `{"apiVersion":"v1","kind":"Status","status":"Success"}`), nil
	}
	if reasonOf(outcome) != "" {
		return x.Refusal(outcome), nil
	}
	return nil, nil
}

// answer is what the process gets to know of an answer.
func (l *Link) answer(x *Exchange, outcome string, resp *http.Response) (*http.Response, error) {
	opened := x.Watch && resp.StatusCode == http.StatusOK
	var instead *http.Response
	var err error
	switch {
	case outcome == KillAfter && !l.Dice.Over():
		l.Process.Kill()
	case outcome == BreakAfter, outcome == CutAnswer && opened:
		err = Broken("connection reset by peer")
	case outcome == FailAfter:
		instead = x.Refusal("500")
	case outcome == TimeAfter:
		instead = x.Refusal("504")
	}
	if l.Process.Killed() {
		err = ErrDead
	}
	if instead != nil || err != nil {
		resp.Body.Close()
		return instead, err
	}
	if opened {
		if l.Opened != nil {
			l.Opened(x)
		}
		resp.Body = &watchBody{link: l, exchange: x, under: resp.Body, frames: bufio.NewReaderSize(resp.Body, 512), closed: make(chan struct{})}
		return resp, nil
	}
	if outcome != CutAnswer && l.Told == nil {
		return resp, nil
	}
	raw, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if outcome == CutAnswer && len(raw) > 1 {
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(raw[:len(raw)/2]), cutReader{}))
		return resp, nil
	}
	if l.Told != nil {
		l.Told(x, resp.StatusCode, raw)
	}
	resp.Body = io.NopCloser(bytes.NewReader(raw))
	return resp, nil
}
