package lead

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Two bad moments that have nothing to do with each other don't make a right one that was never given.
func TestRights_LaterMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rights
		r.allow("get")
		require.False(t, r.deny("update"))
		require.False(t, r.deny("update"), "nothing was allowed in between")
		<-time.After(passing)
		r.allow("get")
		require.False(t, r.deny("update"), "it is long ago")
		<-time.After(passing / 2)
		require.False(t, r.deny("update"), "nothing was allowed in between")
		r.allow("get")
		require.True(t, r.deny("update"), "get is allowed meanwhile, and update never was")
		r.allow("update")
		require.False(t, r.deny("update"))
	})
}
