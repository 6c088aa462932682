package main

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func sha512Of(content []byte) string {
	sum := sha512.Sum512(content)
	return hex.EncodeToString(sum[:])
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out)
		require.False(t, p.expect(60_000), "an index")
		p.end()
		require.Empty(t, out.String(), "nothing to wait for is nothing to tell of")
		require.True(t, p.expect(100_000_000))
		for range 100 {
			<-time.After(300 * time.Millisecond)
			p.got(1_000_000)
		}
		p.say("a remark")
		p.end()
		require.Equal(t, []string{
			"controlplane: 34 MB of 100 MB, 3.3 MB/s, 20s left",
			"controlplane: 68 MB of 100 MB, 3.3 MB/s, 10s left",
			"controlplane: a remark",
			"controlplane: 100 MB of 100 MB",
		}, strings.Split(strings.TrimSpace(out.String()), "\n"), "few lines")
	})
}

func TestProgressOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out)
		p.terminal = true
		require.True(t, p.expect(10_000_000))
		for range 4 {
			<-time.After(terminalInterval)
			p.got(1_000_000)
		}
		p.end()
		require.Equal(t, 5, strings.Count(out.String(), "\r"), "one line that changes")
		require.Equal(t, 1, strings.Count(out.String(), "\n"))
	})
}
