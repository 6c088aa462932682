package definitions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/crd"
)

func parsed(t *testing.T, text string) []*crd.Definition {
	t.Helper()
	out, err := crd.Parse([]byte(text))
	require.NoError(t, err)
	return out
}

// aged has a definition half of the way from v1 to v2, and objects that are stored in v1.
func (s *server) aged(objects int) {
	require.NoError(s, s.install(text("v1"), Options{}))
	for i := range objects {
		s.objects[fmt.Sprintf("w%04d", i)] = "v1"
	}
	require.NoError(s, s.install(text("v1", "v2"), Options{}))
	require.Equal(s, []string{"v1", "v2"}, s.stored())
}

// migrate migrates, and returns what it says.
func (s *server) migrate(ctx context.Context) (string, error) {
	var said []string
	err := s.room().Migrate(ctx, parsed(s.T, text("v1", "v2")), false, func(text string) { said = append(said, text) })
	return strings.Join(said, "\n"), err
}

func (s *server) storedIn() []string { return slices.Compact(slices.Sorted(maps.Values(s.objects))) }

func TestMigrate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.aged(600)
		said, err := s.migrate(t.Context())
		require.NoError(t, err)
		require.Contains(t, said, "600 objects are stored in v2; status.storedVersions is [v2]")
		require.Equal(t, []string{"v2"}, s.storedIn())
		require.Equal(t, []string{"v2"}, s.stored())
	})
}

// An API server may store as the definition said a moment ago.
func TestMigrate_Settles(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.aged(1)
		begin := time.Now()
		var after time.Duration
		s.beforeNth(1, "PATCH /apis/"+group, func() error { after = time.Since(begin); return nil })
		_, err := s.migrate(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, after, 4*time.Second, "the API server's times are in whole seconds")
		require.Less(t, after, 6*time.Second)

		s.mu.Lock()
		s.live["status"].(map[string]any)["storedVersions"] = []any{"v1", "v2"}
		s.mu.Unlock()
		<-time.After(time.Minute)
		begin = time.Now()
		_, err = s.migrate(t.Context())
		require.NoError(t, err)
		require.Zero(t, time.Since(begin), "that was long ago")
	})
}

// Only what is rewritten as a whole counts.
func TestMigrate_Refuses(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		happen func(s *server, cancel func()) error // in the middle
		err    string
		stored []string // afterwards
	}{
		"Object":    {"it may be stored in v1", func(*server, func()) error { return apierrors.NewBadRequest("a webhook says no") }, "Widget ns/w0299: a webhook says no; status.storedVersions is left as it is: run migrate-storage again", []string{"v1", "v2"}},
		"Cancelled": {"half of the objects are stored in v1", func(_ *server, cancel func()) error { cancel(); return nil }, "context canceled; status.storedVersions is left as it is", []string{"v1", "v2"}},
		"Storage":   {"objects are stored in v1 again", func(s *server, _ func()) error { s.store("v1"); return nil }, "the storage version was v2 and is v1 now; status.storedVersions is left as it is: run migrate-storage again", []string{"v1", "v2"}},
		"Replaced":  {"another definition, with objects of its own", func(s *server, _ func()) error { s.meta()["uid"] = "another"; return nil }, "somebody has deleted it meanwhile", []string{"v1", "v2"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *server) {
				s.aged(600)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s.beforeNth(300, "PATCH /apis/"+group, func() error { return tc.happen(s, cancel) })
				said, err := s.migrate(ctx)
				require.ErrorContains(t, err, tc.err, tc.reason)
				require.NotContains(t, said, "status.storedVersions is [")
				require.Equal(t, tc.stored, s.stored(), tc.reason)
			})
		})
	}
	t.Run("Right", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *server) {
			s.aged(10)
			s.before = func(request string) error {
				if strings.HasSuffix(request, "/status") {
					return forbidden()
				}
				return nil
			}
			_, err := s.migrate(t.Context())
			require.ErrorContains(t, err, "no object was rewritten")
			require.Equal(t, []string{"v1"}, s.storedIn(), "before hours of work")
		})
	})
}

// Objects that were written while the definition said otherwise are rewritten once more.
func TestMigrate_RolledBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.aged(600)
		s.beforeNth(300, "PATCH /apis/"+group, func() error {
			s.store("v1")
			s.objects["w0000"], s.objects["late"] = "v1", "v1"
			s.store("v2")
			return nil
		})
		said, err := s.migrate(t.Context())
		require.NoError(t, err)
		require.Contains(t, said, "the definition has changed meanwhile; the objects are rewritten once more")
		require.Equal(t, []string{"v2"}, s.storedIn())
		require.Equal(t, []string{"v2"}, s.stored())
	})
}

// Pages that expire are listed anew, all at once.
func TestMigrate_Expired(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.aged(600)
		s.beforeNth(2, "GET /apis/"+group+"/v2/widgets", func() error { return apierrors.NewResourceExpired("too old") })
		said, err := s.migrate(t.Context())
		require.NoError(t, err)
		require.Contains(t, said, "600 objects are stored in v2")
	})
}

// Who migrates before the newer definition is installed is told so.
func TestMigrate_TooEarly(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		require.NoError(t, s.install(text("v1"), Options{}))
		said, err := s.migrate(t.Context())
		require.NoError(t, err)
		require.Contains(t, said, "every object is stored in v1; nothing to do")
		require.Contains(t, said, "this build's definition stores in v2, and isn't what is installed; to migrate to v2, install it first")
	})
}
