package faults

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const hang = 45 * time.Second

// linkTo returns the link of a process to a server. Frames of its watches meet the faults of a
// script.
func linkTo(serve func(x *Exchange, f Fault) (*http.Response, error), script ...Fault) *Link {
	dice := Play(script)
	return &Link{
		Process: NewProcess("process", func() {}), Serve: serve, Dice: dice, Hang: hang,
		Frame: func(_ *Exchange, frame []byte) Fault {
			if strings.Contains(string(frame), "BOOKMARK") {
				return Fault{}
			}
			return dice.Next(watchName, Odds{})
		},
	}
}

func exchangeOf(t *testing.T, method, path, body string) *Exchange {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://server"+path, strings.NewReader(body))
	require.NoError(t, err)
	x, err := Read(req)
	require.NoError(t, err)
	return x
}

func TestRead(t *testing.T) {
	const maps = "/api/v1/namespaces/ns/configmaps"
	type what struct{ watch, write, trial bool }
	for name, tc := range map[string]struct {
		reason, method, path, body, name string
		want                             what
	}{
		"Get":     {"it changes nothing", "GET", maps + "/a", "", "a", what{}},
		"Watch":   {"it goes on", "GET", maps + "?watch=true", "", "", what{watch: true}},
		"Create":  {"the name is in the body", "POST", maps, `{"metadata":{"name":"a"}}`, "a", what{write: true}},
		"NoName":  {"the server makes it", "POST", maps, `{"metadata":{"generateName":"a-"}}`, "", what{write: true}},
		"NoJSON":  {"a body may be anything", "POST", maps, `k8s`, "", what{write: true}},
		"Update":  {"the name is in the path", "PUT", maps + "/a", `{"metadata":{"name":"b"}}`, "a", what{write: true}},
		"Part":    {"as it is of what is created as a part of an object", "POST", "/api/v1/namespaces/ns/pods/a/eviction", `{"metadata":{"name":"b"}}`, "a", what{write: true}},
		"Attempt": {"a dry run changes nothing", "PUT", maps + "/a?dryRun=All", `{}`, "a", what{trial: true}},
	} {
		t.Run(name, func(t *testing.T) {
			x := exchangeOf(t, tc.method, tc.path, tc.body)
			require.Equal(t, tc.name, x.On.Name, tc.reason)
			require.Equal(t, tc.want, what{x.Watch, x.Write, x.Trial}, tc.reason)
			require.Equal(t, tc.body, string(x.Sent))
			sent, err := io.ReadAll(x.Body)
			require.NoError(t, err)
			require.Equal(t, tc.body, string(sent), "the server gets all of the body")
		})
	}
}

// A carried is what has become of a request.
type carried struct {
	done bool   // by the server
	told string // what the process got of the answer
	code int
	err  string // of the answer, or of reading it
	dead bool
	took time.Duration
}

func TestCarry(t *testing.T) {
	const answer = `{"kind":"Answer"}`
	for name, tc := range map[string]struct {
		reason string
		fault  Fault
		want   carried
	}{
		"Nothing":     {"it passes", Fault{}, carried{done: true, told: answer, code: 200}},
		"Late":        {"late", Fault{Outcome: Late, Delay: 3 * time.Second}, carried{done: true, told: answer, code: 200, took: 3 * time.Second}},
		"LateBefore":  {"late", Fault{Outcome: LateBefore, Delay: 3 * time.Second}, carried{done: true, told: answer, code: 200, took: 3 * time.Second}},
		"LateAfter":   {"late", Fault{Outcome: LateAfter, Delay: 3 * time.Second}, carried{done: true, told: answer, code: 200, took: 3 * time.Second}},
		"KillBefore":  {"it isn't sent", Fault{Outcome: KillBefore}, carried{err: ErrDead.Error(), dead: true}},
		"KillAfter":   {"it is done, and nobody knows", Fault{Outcome: KillAfter}, carried{done: true, err: ErrDead.Error(), dead: true}},
		"BreakBefore": {"it isn't done", Fault{Outcome: BreakBefore}, carried{err: "connection reset by peer"}},
		"BreakAfter":  {"it is done, and the process can't tell", Fault{Outcome: BreakAfter}, carried{done: true, err: "connection reset by peer"}},
		"CutAnswer":   {"half of the answer", Fault{Outcome: CutAnswer}, carried{done: true, told: answer[:len(answer)/2], code: 200, err: "unexpected EOF"}},
		"FailAfter":   {"the server doesn't know", Fault{Outcome: FailAfter}, carried{done: true, code: 500}},
		"TimeAfter":   {"it was too slow", Fault{Outcome: TimeAfter}, carried{done: true, code: 504}},
		"Conflict":    {"it is refused", Fault{Outcome: "409"}, carried{code: 409}},
		"NoPage":      {"a proxy doesn't know it", Fault{Outcome: PageMissing}, carried{told: "<html>no such page</html>", code: 404}},
		"Page":        {"a proxy wants a password", Fault{Outcome: PageFine}, carried{told: "<html>sign in</html>", code: 200}},
		"Hollow":      {"it says that it is done", Fault{Outcome: Hollow}, carried{told: `{"apiVersion":"v1","kind":"Status","status":"Success"}`, code: 200}},
		"Both":        {"it is refused late", Fault{Outcome: "503", Delay: 2 * time.Second}, carried{code: 503, took: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var is carried
				l := linkTo(func(x *Exchange, _ Fault) (*http.Response, error) {
					is.done = true
					return x.Answer(http.StatusOK, "application/json", answer), nil
				})
				l.Told = func(_ *Exchange, _ int, body []byte) { require.JSONEq(t, answer, string(body)) }
				begin := time.Now()
				resp, err := l.Carry(exchangeOf(t, http.MethodPut, "/api/v1/namespaces/ns/configmaps/a", "{}"), tc.fault)
				if err == nil {
					var told []byte
					if told, err = io.ReadAll(resp.Body); !strings.Contains(string(told), "a fault of the storm") {
						is.told = string(told)
					}
					is.code = resp.StatusCode
				}
				if err != nil {
					is.err = err.Error()
				}
				is.dead, is.took = l.Process.Killed(), time.Since(begin)
				require.Equal(t, tc.want, is, tc.reason)
			})
		})
	}
}

func TestCarryWithoutAClient(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		fault  Fault
		end    func(p *Process, cancel func())
		done   bool
		error  string
		took   time.Duration
	}{
		"Gave up":    {"it is still on its way", Fault{Outcome: Late, Delay: 10 * time.Second}, func(_ *Process, cancel func()) { cancel() }, false, "context canceled", time.Second},
		"ArrivesYet": {"it arrives although its sender has given up", Fault{Outcome: LateBefore, Delay: 10 * time.Second}, func(_ *Process, cancel func()) { cancel() }, true, "context canceled", 10 * time.Second},
		"Killed":     {"what a dead process has sent doesn't arrive", Fault{Outcome: LateBefore, Delay: 10 * time.Second}, func(p *Process, _ func()) { p.Kill() }, false, ErrDead.Error(), time.Second},
		"Answer":     {"it was done, and its sender doesn't wait", Fault{Outcome: LateAfter, Delay: 10 * time.Second}, func(_ *Process, cancel func()) { cancel() }, true, "context canceled", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done := false
				l := linkTo(func(x *Exchange, _ Fault) (*http.Response, error) {
					done = x.Context().Err() == nil // no server looks at a request whose sender is known to be gone
					return x.Answer(http.StatusOK, "application/json", "{}"), nil
				})
				x := exchangeOf(t, http.MethodDelete, "/api/v1/namespaces/ns/configmaps/a", "")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				x.Request = x.WithContext(ctx)
				time.AfterFunc(time.Second, func() { tc.end(l.Process, cancel) })
				begin := time.Now()
				_, err := l.Carry(x, tc.fault)
				require.EqualError(t, err, tc.error, tc.reason)
				require.Equal(t, tc.done, done, tc.reason)
				require.Equal(t, tc.took, time.Since(begin), tc.reason)
			})
		})
	}
}

func TestKillAfterTheFaults(t *testing.T) {
	l := linkTo(func(x *Exchange, _ Fault) (*http.Response, error) {
		return x.Answer(http.StatusOK, "application/json", "{}"), nil
	})
	l.Dice.Heal()
	resp, err := l.Carry(exchangeOf(t, http.MethodGet, "/api/v1/configmaps", ""), Fault{Outcome: KillAfter})
	require.NoError(t, err, "a fault that was drawn before they ended kills nobody after")
	require.NoError(t, resp.Body.Close())
	require.False(t, l.Process.Killed())
}

func TestUnreachable(t *testing.T) {
	l := linkTo(func(*Exchange, Fault) (*http.Response, error) {
		t.Error("it has arrived")
		return nil, ErrDead
	})
	l.Unreachable = func(x *Exchange) bool { return x.On.Name == "a" }
	_, err := l.Carry(exchangeOf(t, http.MethodGet, "/api/v1/namespaces/ns/configmaps/a", ""), Fault{})
	require.EqualError(t, err, "connection refused")
}

func TestWatchesAreCounted(t *testing.T) {
	open := 0
	l := linkTo(func(*Exchange, Fault) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
	})
	l.Opened, l.Closed = func(*Exchange) { open++ }, func(*Exchange) { open-- }
	watch := exchangeOf(t, http.MethodGet, "/api/v1/configmaps?watch=true", "")
	resp, err := l.Carry(watch, Fault{})
	require.NoError(t, err)
	require.Equal(t, 1, open)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, resp.Body.Close())
	require.Zero(t, open, "it is closed once")
	_, err = l.Carry(watch, Fault{Outcome: BreakAfter})
	require.Error(t, err)
	_, err = l.Carry(watch, Fault{Outcome: CutAnswer})
	require.EqualError(t, err, "connection reset by peer", "a watch has no half answer")
	require.Zero(t, open, "what never began isn't open")
}

func TestProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *Process
		none.Kill()
		none.Stop()
		none.Cut(time.Second)

		stopped := 0
		p := NewProcess("a", func() { stopped++ })
		p.Cut(10 * time.Second)
		<-time.After(9 * time.Second)
		require.True(t, p.IsCut())
		<-time.After(2 * time.Second)
		require.False(t, p.IsCut(), "it is for a while")
		p.Cut(10 * time.Second)
		p.Cut(0)
		require.False(t, p.IsCut(), "it can be ended")

		p.Stop()
		require.Equal(t, 1, stopped)
		require.False(t, p.Killed(), "a process that is told to end is alive")
		require.NoError(t, p.Sleep(t.Context(), time.Second))
		p.Kill()
		p.Kill()
		require.Equal(t, 2, stopped, "it dies once")
		<-p.Dead()
		require.ErrorIs(t, p.Sleep(t.Context(), 0), ErrDead)
	})
}
