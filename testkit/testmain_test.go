package testkit

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunTests(t *testing.T) {
	t.Parallel()
	unstoppable := func() *Cluster {
		c := &Cluster{}
		c.stopOnce.Do(func() { c.stopErr = errors.New("etcd lives on") })
		return c
	}
	for name, tc := range map[string]struct {
		reason  string
		cluster *Cluster
		err     error
		short   bool
		code    int // of the tests
		ran     bool
		want    int
		said    string
	}{
		"Passed":      {reason: "all is well", cluster: &Cluster{}, ran: true},
		"Failed":      {reason: "the code is that of the tests", cluster: &Cluster{}, code: 3, ran: true, want: 3},
		"NotStarted":  {reason: "no test can run", err: errors.New("no etcd"), want: 1, said: "testkit: no etcd\n"},
		"NotStopped":  {reason: "tests that pass don't hide it", cluster: unstoppable(), ran: true, want: 1, said: "testkit: etcd lives on\n"},
		"BothFailed":  {reason: "both are told", cluster: unstoppable(), code: 3, ran: true, want: 3, said: "testkit: etcd lives on\n"},
		"WithoutOne":  {reason: "what needs no cluster runs", short: true, ran: true},
		"WithoutFail": {reason: "as any test", short: true, code: 1, ran: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if tc.cluster != nil {
				tc.cluster.dir = filepath.Join(dir, "cluster")
			}
			start := func() (*Cluster, error) { return tc.cluster, tc.err }
			if tc.short {
				start = nil
			}
			var during, held *Cluster
			ran := false
			var said bytes.Buffer
			code := runTests(func() int { ran, during = true, held; return tc.code }, start, &held, &said)
			require.Equal(t, tc.want, code, tc.reason)
			require.Equal(t, tc.ran, ran, tc.reason)
			require.Same(t, tc.cluster, during, "the tests have it")
			require.Equal(t, tc.said, said.String(), tc.reason)
		})
	}
}
