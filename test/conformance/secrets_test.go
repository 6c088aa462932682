package conformance

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

// canary is in every value of a Secret here, and nowhere else.
const canary = "Kanarienvogel"

// forms are those in which a value may show.
func forms() []string {
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	return []string{canary, encoded[:len(encoded)-4], strings.ToLower(canary), fmt.Sprintf("%x", canary)}
}

// hidden returns a Secret whose values all are the canary's.
func hidden(name, suffix string, keys ...string) map[string]any {
	data := map[string]any{}
	for _, key := range append(keys, "password") {
		data[key] = base64.StdEncoding.EncodeToString([]byte(canary + suffix))
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": data,
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"example.com/last-applied": canary + suffix}},
	}
}

// changed returns a Secret with one more field.
func changed(secret map[string]any, field string, value any) map[string]any {
	secret[field] = value
	return secret
}

func TestC244_NothingTellsAValue(t *testing.T) {
	scenario(t, "C244", "no answer to a Secret, however refused, shows a value, under any strategy")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.OnDelete, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			w := newWitness()
			cfg := operator("secrets-"+lower(strategy), config.Child{Type: k8s.Secret, Strategy: strategy, Adopt: true})
			s := newStageWith(t, unbounded(cfg), w.options())
			// Every sort of answer that a server can give to a Secret, and every
			// sort of trouble that the engine tells of.
			s.Create(hidden("adopted", "foreign"))
			s.want(hidden("one", "1"), hidden("adopted", "1"))
			s.Update(hidden("one", "by hand"))
			settle(t, s.Kit)
			s.want(hidden("one", "2"), changed(hidden("fixed", "1"), "immutable", true))
			troubles := map[string]map[string]any{
				"key":       hidden("trouble", "3", "not a key!"),
				"base64":    changed(hidden("trouble", "3"), "data", map[string]any{"password": canary + "!"}),
				"type":      changed(hidden("trouble", "3"), "type", "kubernetes.io/dockerconfigjson"),
				"json":      changed(hidden("trouble", "3", ".dockerconfigjson"), "type", "kubernetes.io/dockerconfigjson"),
				"number":    changed(hidden("trouble", "3"), "data", map[string]any{"password": 5}),
				"field":     changed(hidden("trouble", "3"), "unknownField", canary),
				"utf8":      changed(hidden("trouble", "3"), "stringData", map[string]any{"password": canary + "\xff"}),
				"immutable": changed(hidden("fixed", "2"), "immutable", true),
				"name":      hidden("Not-A-Name", "3"),
				"size":      hidden("trouble", strings.Repeat(canary, 100_000)),
				"larger":    hidden("trouble", strings.Repeat(canary, 300_000)),
			}
			refused := 0
			for name, trouble := range troubles {
				children := []any{hidden("one", "2"), trouble}
				if name != "immutable" {
					children = append(children, changed(hidden("fixed", "1"), "immutable", true))
				}
				s.ask(children...)
				if name != "immutable" { // which some strategies can change
					eventually(t, name+" is refused", func() bool { return len(s.errors()) > refused })
				}
				_ = s.Settle(patience) // or a loop is found
				refused = len(s.errors())
			}
			var calls atomic.Int64
			s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Children: []any{hidden("one", fmt.Sprint("loop", calls.Add(1)))}}
			})
			if strategy != config.OnDelete {
				eventually(t, "a loop is found", func() bool { return anyContains(s.Events(parent("one", nil)), "ConflictLoop") })
			}
			require.Contains(t, w.spans.String(), "trouble")
			said := w.logged() + w.metrics() + w.spans.String() + fmt.Sprint(s.Events(parent("one", nil))) + errors.Join(s.errors()...).Error()
			require.Contains(t, said, "trouble")
			// What a dry run of another build says.
			rehearsed := newWitness()
			dry := unbounded(cfg)
			dry.DryRun = true
			dry.Namespaces = []string{s.Namespace}
			options := rehearsed.options().Runner
			options.RESTConfig = cluster.RESTConfig()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { // until cancel
				ended <- insist(func() error {
					return runner.Run(ctx, dry, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
						return &handler.SyncResponse{Children: []any{hidden("one", "dry"), hidden("new", "dry")}}, nil
					}), options)
				})
			}()
			eventually(t, "the dry run has said what it would do", func() bool { return strings.Contains(rehearsed.logged(), "would") })
			cancel()
			require.NoError(t, <-ended)
			said += rehearsed.logged() + rehearsed.metrics() + rehearsed.spans.String()
			for _, form := range forms() {
				require.NotContains(t, said, form, around(said, form))
			}
		})
	}
}

// around returns what is beside a text.
func around(text, part string) string {
	at := strings.Index(text, part)
	if at < 0 {
		return ""
	}
	return text[max(0, at-300):min(len(text), at+len(part)+100)]
}
