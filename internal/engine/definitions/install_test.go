package definitions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// inBubble runs a test whose time passes at once.
func inBubble(t *testing.T, test func(t *testing.T, s *server)) {
	synctest.Test(t, func(t *testing.T) { test(t, newServer(t)) })
}

func TestInstall_Refuses(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		before  []string // what builds have installed
		build   string
		stored  []string // status.storedVersions, unless as the API server has it
		err     string
		allowed bool // with AllowNarrowed it is installed
	}{
		"Older":         {"a build of before, whose definition takes nothing away", []string{text("v1"), text("v1 , colour: {type: string}"), text("v1")}[:2], text("v1"), nil, "a newer build of the operator has installed another one: run this build without --install-crds", true},
		"OlderTight":    {"nor does this one take anything away, but values", []string{text("v1 , f: {type: integer, maximum: 3}"), text("v1 , f: {type: integer, maximum: 4}")}, text("v1 , f: {type: integer, maximum: 3}"), nil, "a newer build of the operator has installed another one", true},
		"OlderUnknown":  {"it was never installed here", []string{text("v1", "v2")}, text("v1"), nil, "a newer build of the operator has installed the version v2, in which objects may be stored (status.storedVersions): run this build without --install-crds", false},
		"OlderMigrated": {"nothing is stored in the newer version yet", []string{text("v2", "v1")}, text("v1"), []string{"v1"}, "it would narrow what is installed: version v2: removed, and newer than every version of this build", true},
		"Removed":       {"values would be dropped", []string{text("v1 , colour: {type: string}")}, text("v1"), nil, "it would narrow what is installed: version v1: spec.colour: removed; its values would be dropped", true},
		"Narrowed":      {"stored values are wrong", []string{text("v1 , f: {type: string}")}, text("v1 , f: {type: integer}"), nil, "version v1: spec.f.type: was string, is integer", true},
		"Stored":        {"objects couldn't be read", []string{text("v1"), text("v1", "v2")}, text("v2"), nil, "the version v1 isn't in it any more, but objects may be stored in it (status.storedVersions): run migrate-storage", false},
		"Scope":         {"where would the objects be?", []string{text("v1")}, strings.Replace(text("v1"), "Namespaced", "Cluster", 1), nil, "spec.scope: was Namespaced, is Cluster; no API server accepts that", false},
		"Kind":          {"objects have the old one", []string{text("v1")}, strings.Replace(text("v1"), "Widget", "Gadget", 1), nil, "spec.names.kind: was Widget, is Gadget; no API server accepts that", false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *server) {
				for _, definition := range tc.before {
					require.NoError(t, s.install(definition, Options{}))
				}
				if tc.stored != nil {
					live, err := s.room().get(t.Context(), live)
					require.NoError(t, err)
					require.NoError(t, s.room().setStored(t.Context(), live, tc.stored[0], false))
				}
				s.writes = nil
				before := s.spec()
				err := s.install(tc.build, Options{})
				require.ErrorContains(t, err, tc.err, tc.reason)
				require.ErrorContains(t, err, "CustomResourceDefinition "+live+": ")
				require.Empty(t, s.writes, "nothing is written")
				require.Equal(t, before, s.spec())
				err = s.install(tc.build, Options{AllowNarrowed: true})
				require.Equal(t, tc.allowed, err == nil, "%s: %v", tc.reason, err)
			})
		})
	}
}

// Whoever is faster, the newer build's definition is there in the end.
func TestInstall_AtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		reason        string
		first, second string // in the order of their writes
		err           string // of the second
	}{
		"NewerFirst": {"the older one looks again", text("v1", "v2"), text("v1"), "run this build without --install-crds"},
		"OlderFirst": {"the newer one looks again", text("v1"), text("v1", "v2"), ""},
		"Same":       {"nothing is left to do", text("v1"), text("v1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *server) {
				// The first is the dry run of the second one.
				s.beforeNth(2, "POST", func() error { return s.install(tc.first, Options{}) })
				err := s.install(tc.second, Options{})
				if tc.err == "" {
					require.NoError(t, err, tc.reason)
				} else {
					require.ErrorContains(t, err, tc.err, tc.reason)
				}
				newest := tc.first
				if tc.err == "" {
					newest = tc.second
				}
				s.before = func(string) error { return nil }
				s.writes = nil
				require.NoError(t, s.install(newest, Options{}))
				require.Empty(t, s.writes, "it is as the newer build wants it")
				for _, entry := range s.meta()["managedFields"].([]any) {
					require.Equal(t, "Apply", entry.(map[string]any)["operation"], "a later build takes away what it leaves out")
				}
			})
		})
	}
	t.Run("Changed", func(t *testing.T) { // between the dry run and the write
		inBubble(t, func(t *testing.T, s *server) {
			require.NoError(t, s.install(text("v1"), Options{}))
			s.beforeNth(2, "PATCH", func() error { return s.install(text("v1", "v2", "v3"), Options{}) })
			require.ErrorContains(t, s.install(text("v1", "v2"), Options{}), "a newer build of the operator has installed the version v3")
			require.Contains(t, s.spec(), "v3")
		})
	})
}

func TestInstall_Waits(t *testing.T) {
	down := errors.New("connection refused")
	for name, tc := range map[string]struct {
		reason      string
		establishes time.Duration
		names       string                          // the status of NamesAccepted
		answer      func(since time.Duration) error // after the creation
		took        time.Duration                   // about
		err         string
	}{
		"Established": {"the operator's types are served", 20 * time.Second, "", nil, 20 * time.Second, ""},
		"Never":       {"it says what is missing", time.Hour, "", nil, time.Minute, "not served within 1m0s: not established: the initial names have been accepted"},
		"Names":       {"they aren't there for a moment", time.Hour, "False", nil, 5 * time.Second, "its names aren't accepted: of somebody else; another CustomResourceDefinition of the group example.com has them"},
		"NamesPartly": {"it is served by those of before", 0, "False", nil, 0, ""},
		"Restart": {"the API server begins again", 0, "", func(since time.Duration) error {
			if since < 30*time.Second {
				return down
			}
			return nil
		}, 30 * time.Second, ""},
		"Down":      {"nobody answers", 0, "", func(time.Duration) error { return down }, time.Minute, "not served within 1m0s: read: "},
		"Forbidden": {"waiting doesn't help", 0, "", func(time.Duration) error { return forbidden() }, 0, "manifests prints the rule that --install-crds needs"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *server) {
				s.establishes = tc.establishes
				if tc.names != "" {
					s.conditions["NamesAccepted"] = tc.names
				}
				begin := time.Now()
				s.before = func(string) error {
					if tc.answer == nil || len(s.writes) == 0 {
						return nil
					}
					return tc.answer(time.Since(begin))
				}
				err := s.install(text("v1"), Options{})
				require.InDelta(t, tc.took.Seconds(), time.Since(begin).Seconds(), 1, tc.reason)
				if tc.err == "" {
					require.NoError(t, err, tc.reason)
				} else {
					require.ErrorContains(t, err, tc.err, tc.reason)
				}
				require.Equal(t, name == "NamesPartly", strings.Contains(s.log.String(), "doesn't accept all names"))
			})
		})
	}
	t.Run("Stopped", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *server) {
			s.establishes = time.Hour
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			wanted := parsed(t, text("v1"))
			require.ErrorIs(t, s.room().Install(ctx, wanted, Options{}), context.DeadlineExceeded)
		})
	})
}

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "apiextensions.k8s.io", Resource: resourceName}, live, errors.New("no rule"))
}

func TestInstall_NoRight(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.before = func(string) error { return forbidden() }
		require.ErrorContains(t, s.install(text("v1"), Options{}), "CustomResourceDefinition widgets.example.com: install: read: ")
		require.ErrorContains(t, s.install(text("v1"), Options{}), "manifests prints the rule that --install-crds needs")
	})
}

// A definition that is being deleted is waited for, but not for long: the operator may have
// to finalize its objects.
func TestInstall_Deleted(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		goes   time.Duration
		left   bool
	}{
		"Soon":  {"a new one is made", 3 * time.Second, false},
		"Later": {"its objects keep it", time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *server) {
				require.NoError(t, s.install(text("v1"), Options{}))
				s.meta()["deletionTimestamp"] = "2026-01-01T00:00:00Z"
				begin, uid := time.Now(), s.meta()["uid"]
				s.before = func(string) error {
					s.mu.Lock()
					defer s.mu.Unlock()
					if s.live != nil && s.meta()["uid"] == uid && time.Since(begin) >= tc.goes {
						s.live = nil
					}
					return nil
				}
				s.writes = nil
				require.NoError(t, s.install(text("v1 , colour: {type: string}"), Options{}), tc.reason)
				require.Equal(t, tc.left, len(s.writes) == 0, tc.reason)
				require.Equal(t, tc.left, strings.Contains(s.log.String(), "is being deleted, and isn't installed"))
				require.Less(t, time.Since(begin), 15*time.Second)
			})
		})
	}
	t.Run("Meanwhile", func(t *testing.T) { // between the dry run and the write
		inBubble(t, func(t *testing.T, s *server) {
			require.NoError(t, s.install(text("v1"), Options{}))
			s.beforeNth(2, "PATCH", func() error { s.live = nil; return nil })
			require.NoError(t, s.install(text("v1 , colour: {type: string}"), Options{}))
			require.Contains(t, s.spec(), "colour")
		})
	})
}

// Fields whose process was killed before they were applied ones become such, and only then
// a later build takes away what it leaves out.
func TestInstall_KilledMidway(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		require.NoError(t, s.install(text("v1"), Options{}))
		s.meta()["managedFields"] = []any{s.entry("Update")}
		s.writes = nil
		require.NoError(t, s.install(text("v1 , colour: {type: string}"), Options{}))
		require.Len(t, s.writes, 2)
		require.Len(t, s.meta()["managedFields"], 1)
		require.Equal(t, "Apply", s.meta()["managedFields"].([]any)[0].(map[string]any)["operation"])
	})
}

// What a build leaves out is taken away, once.
func TestInstall_LeftOut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		short := strings.Replace(text("v1"), "plural: widgets", "plural: widgets, shortNames: [wd]", 1)
		require.NoError(t, s.install(short, Options{}))
		require.NoError(t, s.install(text("v1"), Options{}))
		require.NotContains(t, s.spec(), "shortNames")
		require.Contains(t, s.meta()["annotations"], history)
		s.writes = nil
		require.NoError(t, s.install(text("v1"), Options{}))
		require.Empty(t, s.writes)
	})
}
