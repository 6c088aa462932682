package failable

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

// A version says what a request shows of a parent.
type version struct {
	uid        string
	revision   int // resourceVersion of the parent
	generation int
	pod        int // resourceVersion of its only child; 0: no child
}

func (v version) request(t testing.TB) *handler.SyncRequest {
	t.Helper()
	if v.uid == "" {
		v.uid = "u1"
	}
	parent, err := resource.New(fmt.Appendf(nil,
		`{"apiVersion":"example.com/v1","kind":"Database","metadata":{"namespace":"shop","name":"orders","uid":%q,`+
			`"resourceVersion":"%d","generation":%d},"spec":{"size":3}}`, v.uid, v.revision, v.generation))
	require.NoError(t, err)
	req := &handler.SyncRequest{Parent: parent}
	if v.pod > 0 {
		pod, err := resource.New(fmt.Appendf(nil,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"orders","uid":"p1","resourceVersion":"%d"}}`, v.pod))
		require.NoError(t, err)
		req.Children = handler.NewChildren(pod)
	}
	return req
}

// plain is the default configuration without jitter.
func plain() BackoffConfig { return BackoffConfig{RandomizationFactor: -1} }
