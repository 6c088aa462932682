package conformance

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/testkit"
)

// numberTexts are numbers in words that the API server doesn't keep.
var numberTexts = []string{
	"2.0", "1e3", "1E2", "-0.0", "-0", "1.50", "1e-7", "9007199254740993.0", "9007199254740993", "1.2345678901234567e18", "9223372036854775807", "-1.2345678901234567e18",
	"9.3e18", "1e19", "12345678901234567890.0", "1e21", "1.7976931348623157e308",
}

// numberForms are the Go types in which a handler may return numbers.
func numberForms() map[string]func(text string) any {
	float := func(text string) float64 {
		f, _ := strconv.ParseFloat(text, 64)
		return f
	}
	return map[string]func(text string) any{
		"raw":       func(text string) any { return json.RawMessage(text) },
		"number":    func(text string) any { return json.Number(text) },
		"float":     func(text string) any { return float(text) },
		"field":     func(text string) any { return struct{ V json.RawMessage }{json.RawMessage(text)} },
		"typed":     func(text string) any { return struct{ V float64 }{float(text)} },
		"extension": func(text string) any { return runtime.RawExtension{Raw: []byte(`{"v":` + text + `}`)} },
	}
}

func TestC156_NumbersInAStatus(t *testing.T) {
	scenario(t, "C156", "a number in a status costs nothing at a restart, however it is written")
	for form, of := range numberForms() {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c156-status-"+form, childrenBy(config.Replace, gadgetType)...)
			status := map[string]any{}
			for i, text := range numberTexts {
				status["v"+strconv.Itoa(i)] = of(text)
				status["l"+strconv.Itoa(i)] = []any{of(text)}
			}
			s.answer(func(*handler.SyncRequest) *handler.SyncResponse { return &handler.SyncResponse{Status: status} })
			settle(t, s.Kit)
			require.Empty(t, s.errors())
			s.restart()
			s.silent()
		})
	}
}

func TestC156c_NumbersInChildren(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C156c", "a number in a child costs nothing at a restart, however it is written")
	for form, of := range numberForms() {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
			t.Run(form+string(strategy), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, "c156-"+form+"-"+lower(strategy), childrenBy(strategy, gadgetType)...)
				var children []any
				for i, text := range numberTexts {
					children = append(children, map[string]any{
						"apiVersion": gadgetType.APIVersion, "kind": gadgetType.Kind, "metadata": map[string]any{"name": "n" + strconv.Itoa(i)},
						"spec": map[string]any{"value": of(text), "list": []any{of(text)}},
					})
				}
				s.want(children...)
				from := needsAudit(t).mark(t)
				s.want(children...)
				require.Empty(t, s.writtenSince(from), "the same again")
				s.restartReading()
				s.silent()
			})
		}
	}
}

func TestC156d_NumbersByASchema(t *testing.T) {
	scenario(t, "C156d", "a number that a schema describes costs nothing at a restart, however it is written")
	const (
		group  = "c156.example.com"
		fields = `{number: {type: number}, integer: {type: integer}, either: {x-kubernetes-int-or-string: true}, any: {x-kubernetes-preserve-unknown-fields: true},
			set: {type: array, x-kubernetes-list-type: set, items: {type: number}}}`
		schema = `{type: object, properties: {observedGeneration: {type: integer}, all: {type: array, items: {type: object, properties: ` + fields + `}}}}`
	)
	crd := thingCRD(t, group, schema)
	version := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	require.NoError(t, unstructured.SetNestedMap(version, manifest(t, schema), "schema", "openAPIV3Schema", "properties", "status"))
	installCRD(t, group, crd)
	values := func(of func(text string) any) map[string]any {
		var all []any
		for _, text := range numberTexts {
			item := map[string]any{"number": of(text), "any": of(text), "set": []any{of(text), of("7.0")}}
			if f, _ := strconv.ParseFloat(text, 64); f == float64(int32(f)) {
				item["integer"], item["either"] = of(text), of(text)
			}
			all = append(all, item)
		}
		return map[string]any{"all": all}
	}
	for form, of := range numberForms() {
		if form == "field" || form == "typed" || form == "extension" {
			continue // these are objects
		}
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
			t.Run(form+string(strategy), func(t *testing.T) {
				s := newStage(t, "c156-schema-"+form+"-"+lower(strategy), childrenBy(strategy, thingOf(group))...)
				it := thing(t, group, "{}")
				it["spec"] = values(of)
				s.want(it)
				s.restartReading()
			})
		}
		t.Run(form+"Status", func(t *testing.T) {
			cfg := operator("c156-schema-status-"+form, childrenBy(config.Replace, gadgetType)...)
			cfg.Parent = thingOf(group)
			h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				return &handler.SyncResponse{Status: values(of)}, nil
			})
			kit := testkit.New(t, cluster, cfg, h)
			kit.Create(thing(t, group, "{}"))
			settle(t, kit)
			require.Empty(t, kit.HandlerErrors(thing(t, group, "{}")))
			writes := len(kit.Writes())
			require.NotZero(t, writes)
			kit.Stop()
			from := needsAudit(t).mark(t)
			kit.Restart(cfg, h)
			settle(t, kit)
			for _, r := range audit.since(t, from, cfg.Name) {
				require.False(t, r.persists(), "after a restart: %s", r)
			}
		})
	}
}

func TestC156e_NumbersThatCantBe(t *testing.T) {
	scenario(t, "C156e", "a number that no API server can hold is an error that names the field, and nothing is written")
	s := newStage(t, "c156-beyond", childrenBy(config.Replace, gadgetType)...)
	fails := func(problem, form string) {
		t.Helper()
		settle(t, s.Kit)
		before := s.Syncs(s.it()) // the kit keeps the newest errors alone, so that their number tells nothing
		eventually(t, "it is tried again", func() bool { return s.Syncs(s.it()) > before+1 })
		errs := s.errors()
		require.NotEmpty(t, errs)
		require.ErrorContains(t, errs[len(errs)-1], problem, form)
	}
	for text, problem := range map[string]string{
		"1e400": "the number is beyond a float64", "12345678901234567890": "the integer is beyond 64 bits",
	} {
		for form, of := range map[string]func(string) any{"raw": numberForms()["raw"], "number": numberForms()["number"]} {
			s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Status: map[string]any{"value": of(text)}}
			})
			fails("status.value: "+problem, form)
			s.ask(map[string]any{
				"apiVersion": gadgetType.APIVersion, "kind": gadgetType.Kind, "metadata": map[string]any{"name": "one"}, "spec": map[string]any{"value": of(text)},
			})
			fails("spec.value: "+problem, form)
		}
	}
	require.Empty(t, s.Writes())
}
