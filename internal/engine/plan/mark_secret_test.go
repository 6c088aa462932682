package plan

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// secretOf returns a Secret as a handler returns it: these fields, with that.
func secretOf(fields map[string]any) map[string]any {
	out := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "c"}}
	maps.Copy(out, fields)
	return out
}

func secretSettings(strategy config.UpdateStrategy) *catalog.Settings {
	return settings.For(config.Child{Type: k8s.Secret, Strategy: strategy}, config.Child{Type: k8s.ConfigMap, Strategy: strategy})
}

func desiredOf(t *testing.T, s *catalog.Settings, parent *resource.Resource, child any) *Desired {
	t.Helper()
	desired, err := Desire(s, parent, []any{child}, &ParentMemory{})
	require.NoError(t, err)
	return desired[0]
}

// TestMarkOfASecret: what the API server is told of a Secret besides the Secret itself,
// the mark and the name of a dry run, is the same for all values. So nobody can try out
// values with it.
func TestMarkOfASecret(t *testing.T) {
	s := secretSettings(config.Replace)
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	meta := func(annotation string) map[string]any {
		return map[string]any{"name": "c", "labels": map[string]any{"l": annotation}, "annotations": map[string]any{"a": annotation}}
	}
	first := desiredOf(t, s, parent, secretOf(map[string]any{"data": map[string]any{"pin": "MDAwMA=="}, "stringData": map[string]any{"x": "0"}, "type": "a", "odd": []any{map[string]any{"name": "0000"}, "0000"}, "metadata": meta("0")}))
	second := desiredOf(t, s, parent, secretOf(map[string]any{"data": map[string]any{"pin": "MTIzNA=="}, "stringData": map[string]any{"x": "1"}, "type": "b", "odd": []any{map[string]any{"name": "1234"}, "1234", "5"}, "metadata": meta("1")}))
	require.Equal(t, newMark(s, first), newMark(s, second))
	require.Equal(t, trialName(first), trialName(second))
	require.NotEqual(t, first.hash, second.hash, "in memory they are told apart")
	require.NotContains(t, newMark(s, first), "0000", "nor are there values in the paths")

	for name, other := range map[string]map[string]any{
		"another key": secretOf(map[string]any{"data": map[string]any{"pun": "MDAwMA=="}}),
		"one more":    secretOf(map[string]any{"data": map[string]any{"pin": "MDAwMA==", "more": ""}}),
		"one less":    secretOf(map[string]any{"data": map[string]any{}}),
	} {
		require.NotEqual(t, newMark(s, desiredOf(t, s, parent, secretOf(map[string]any{"data": map[string]any{"pin": "eA=="}}))), newMark(s, desiredOf(t, s, parent, other)), name)
	}
	a, b := testConfigMap("a"), testConfigMap("b")
	require.NotEqual(t, newMark(s, desiredOf(t, s, parent, a)), newMark(s, desiredOf(t, s, parent, b)), "only Secrets are secret")
	other := sample.Object(t, sample.ParentType(), "p", "q", 1, "")
	require.NotEqual(t, trialName(first), trialName(desiredOf(t, s, other, secretOf(nil))), "two parents don't try under one name")
}

// TestDecide_Secret: what becomes of a Secret whose mark doesn't tell the values.
func TestDecide_Secret(t *testing.T) {
	data := func(value string) map[string]any {
		return secretOf(map[string]any{"data": map[string]any{"k": value}})
	}
	for name, tc := range map[string]struct {
		reason      string
		given, live string // the value that the mark was made for, and the live one
		want        string
		former      string // the value that this process last gave; empty: nothing is known
		answers     map[config.UpdateStrategy]secretAnswer
	}{
		"As desired":        {"the live Secret tells", "a", "a", "a", "", each(VerbNone)},
		"Another's mark":    {"the live Secret is as desired, however it came to be", "b", "a", "a", "", each(VerbNone)},
		"Changed meanwhile": {"nobody knows who has changed it, or what was desired", "a", "a", "b", "", written()},
		"Known":             {"somebody else has changed it", "a", "b", "a", "a", corrected()},
		"Another wish":      {"the handler wants something else", "a", "a", "b", "a", written()},
		"Fulfilled":         {"somebody else was faster", "a", "b", "b", "a", each(VerbNone)},
	} {
		for strategy, want := range tc.answers {
			t.Run(name+"/"+string(strategy), func(t *testing.T) {
				s := secretSettings(strategy)
				parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
				text := func(value string) string { return value + "A==" } // in base64
				live := lived(t, s, parent, data(text(tc.given)), func(o map[string]any) {
					o["data"] = map[string]any{"k": text(tc.live)}
				})
				var known *childMemory
				if tc.former != "" {
					known = accepting(desiredOf(t, s, parent, data(text(tc.former))), live, nil)
				}
				a, ok := decide(s, desiredOf(t, s, parent, data(text(tc.want))), live, known, ownership{}, nil, &Action{})
				require.Equal(t, want.verb != "" || strategy != config.OnDelete || tc.live == tc.want, ok, tc.reason)
				require.Equal(t, want, secretAnswer{a.Verb, a.Ask() == AskFields}, tc.reason)
				if want.verb == VerbNone {
					return
				}
				_, shown := Foresee(&a)
				require.Equal(t, want.verb != VerbMark && !want.looks, shown, "a plan without an API server shows what may be written")
			})
		}
	}
}

// A secretAnswer is what decide answers about a Secret.
type secretAnswer struct {
	verb  Verb
	looks bool
}

// each is the same answer under every strategy.
func each(verb Verb) map[config.UpdateStrategy]secretAnswer {
	a := secretAnswer{verb: verb}
	return map[config.UpdateStrategy]secretAnswer{config.Replace: a, config.Apply: a, config.Recreate: a, config.OnDelete: a}
}

// corrected is the write that each strategy makes of drift.
func corrected() map[config.UpdateStrategy]secretAnswer {
	answers := written()
	answers[config.Recreate] = secretAnswer{verb: VerbUpdate}
	return answers
}

// written is the write that each strategy makes.
func written() map[config.UpdateStrategy]secretAnswer {
	return map[config.UpdateStrategy]secretAnswer{config.Replace: {verb: VerbUpdate}, config.Apply: {verb: VerbApply}, config.Recreate: {verb: VerbRecreate}, config.OnDelete: {}}
}
