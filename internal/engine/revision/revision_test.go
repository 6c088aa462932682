package revision_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/revision"
)

// S356: a consistent read below a version that was seen before of the same type shows that
// etcd was restored. Nothing else does.
func TestS356_Compare(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		seen     []string // before the request
		during   string   // seen while the request is under way
		version  string   // of the response
		restored bool
	}{
		"Older":       {reason: "etcd has gone back", seen: []string{"100"}, version: "50", restored: true},
		"OlderEvents": {reason: "a slow API server's event doesn't lower what is known", seen: []string{"100", "40"}, version: "50", restored: true},
		"Newer":       {reason: "time goes on", seen: []string{"100"}, version: "101"},
		"Equal":       {reason: "nothing has happened", seen: []string{"100"}, version: "100"},
		"During":      {reason: "the response may be older than what was told since the request", seen: []string{"100"}, during: "200", version: "150"},
		"First":       {reason: "nothing is known yet", version: "1"},
		"ByLength":    {reason: "versions are numbers", seen: []string{"99"}, version: "100"},
		"NoVersion":   {reason: "some aggregated API servers tell none", seen: []string{"100"}},
		"NoNumber":    {reason: "there is no order", seen: []string{"100"}, version: "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			var told []error
			s := revision.New(func(err error) { told = append(told, err) })
			for _, version := range tc.seen {
				s.Of("v1", "Pod").See(version)
			}
			since := s.Of("v1", "Pod").Newest()
			s.Of("v1", "Pod").See(tc.during)
			err := s.Of("v1", "Pod").Compare(since, tc.version)
			if !tc.restored {
				require.NoError(t, err, tc.reason)
				require.Empty(t, told)
				return
			}
			require.EqualError(t, err, "etcd was restored from a backup: v1/Pod was at resourceVersion 100, and now is at 50; what this process knows is void; "+
				"restart it, as Kubernetes does with a Pod, and it reads everything anew", tc.reason)
			require.Equal(t, []error{err}, told)
			require.NoError(t, s.Of("v1", "Secret").Compare(s.Of("v1", "Secret").Newest(), tc.version), "types may be in different storages")
		})
	}
}

// S356: an update that changes nothing is answered with the version that it was sent for.
func TestS356_CompareWrite(t *testing.T) {
	pods := revision.New(nil).Of("v1", "Pod")
	pods.See("100")
	require.NoError(t, pods.CompareWrite(pods.Newest(), "50", "50"), "nothing was persisted")
	require.NoError(t, pods.CompareWrite(pods.Newest(), "50", "101"))
	require.Error(t, pods.CompareWrite(pods.Newest(), "50", "60"))
	require.Error(t, pods.CompareWrite(pods.Newest(), "", "60"), "a create")
	require.EqualValues(t, 101, pods.Newest())
}

// However often a connection is lost, there is one value, which one caller receives.
func TestStorage_Losses(t *testing.T) {
	s := revision.New(nil)
	require.Empty(t, s.Losses())
	s.ConnectionLost()
	s.ConnectionLost()
	require.Len(t, s.Losses(), 1)
	<-s.Losses()
	s.ConnectionLost()
	require.Len(t, s.Losses(), 1)
}

// A process that isn't to end, such as a plan, has no Storage.
func TestStorage_None(t *testing.T) {
	var s *revision.Storage
	s.ConnectionLost()
	require.Nil(t, s.Losses())
	pods := s.Of("v1", "Pod")
	pods.See("100")
	require.Zero(t, pods.Newest())
	require.NoError(t, pods.Compare(100, "1"))
	require.NoError(t, pods.CompareWrite(100, "", "1"))
}
