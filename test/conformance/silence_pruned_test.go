package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

var (
	widgetType = resource.Type{APIVersion: "conformance.roperator.com/v1", Kind: "Widget"}
	gadgetType = resource.Type{APIVersion: "conformance.roperator.com/v1", Kind: "Gadget"}
)

// needsWidgets installs types with lists of every kind, defaults and fields that
// can't be changed, and returns when the API server tells of their schemas: an
// operator asks for them when it starts. It is called before a test becomes
// parallel.
func needsWidgets(t *testing.T) {
	t.Helper()
	_, err := envtest.InstallCRDs(cluster.RESTConfig(), envtest.CRDInstallOptions{
		Paths: []string{"testdata/widgets.yaml"}, ErrorIfPathMissing: true, MaxTime: patience,
	})
	require.NoError(t, err)
	typed, _ := clients(t, "somebody")
	eventually(t, "the schemas are told", func() bool {
		text, err := typed.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis", widgetType.APIVersion).DoRaw(t.Context())
		return err == nil && strings.Contains(string(text), ".v1."+widgetType.Kind+`"`) && strings.Contains(string(text), ".v1."+gadgetType.Kind+`"`)
	})
}

func TestC18_PrunedFields(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C18", "fields that the CRD's schema prunes are no difference")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			// A strict server would refuse what it is about to prune.
			s := newStageWith(t, operator("c18-"+lower(strategy), childrenBy(strategy, widgetType)...), testkit.KitOptions{FieldValidation: "Warn"})
			widget := func(size string) map[string]any {
				return manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {size: `+size+`, misspelled: {a: [1, 2]},
					nested: {known: a, unknown: b}, named: [{name: a, unknown: c}, {name: b}], others: [{unknown: d}]}}`)
			}
			s.want(widget("1"))
			live := s.Get(widget(""))
			spec, _ := live.Field("spec")
			require.NotContains(t, spec, "misspelled")
			s.silent()
			s.restart()
			require.Equal(t, live.UID(), s.Get(widget("")).UID())
			s.want(widget("2"))
			require.Equal(t, int64(2), s.field(widget(""), "spec", "size"))
			s.silent()
			s.restart()
		})
	}
}

func TestC18b_ListsOfCustomResources(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C18b", "a CRD child with list types map, set and atomic, with defaults in them: silent, and changes converge")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c18-lists-"+lower(strategy), childrenBy(strategy, widgetType)...)
			widget := func(spec string) map[string]any {
				return manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: `+spec+`}`)
			}
			s.want(widget(`{size: 1, nested: {}, named: [{name: a}, {name: b, protocol: UDP}], tags: [e, f], steps: [{run: a}, {run: b}], limits: {cpu: 1000m}, port: "80"}`))
			require.Equal(t, "TCP", s.field(widget("{}"), "spec", "named").([]any)[0].(map[string]any)["protocol"])
			s.silent()
			s.restart()

			s.want(widget(`{size: 1, nested: {known: b}, named: [{name: b, protocol: UDP, value: "1"}, {name: c}], tags: [g, f], steps: [{run: b}, {run: a, times: 2}], limits: {cpu: "2.0"}, port: 80}`))
			spec := s.field(widget("{}"), "spec").(map[string]any)
			require.Equal(t, manifest(t, `{size: 1, color: red, nested: {known: b, mode: auto}, tags: [f, g], limits: {cpu: "2.0"}, port: 80,
				steps: [{run: b, times: 1}, {run: a, times: 2}]}`), sorted(spec, "tags", "named"))
			require.ElementsMatch(t, []any{
				map[string]any{"name": "b", "protocol": "UDP", "value": "1"}, map[string]any{"name": "c", "protocol": "TCP"},
			}, spec["named"])
			s.silent()
			s.restart()

			s.want(widget(`{size: 1, tags: [], steps: []}`))
			spec = s.field(widget("{}"), "spec").(map[string]any)
			require.Empty(t, spec["tags"])
			require.Empty(t, spec["steps"])
			require.NotContains(t, spec, "named")
			require.NotContains(t, spec, "port")
			s.silent()
			s.restart()
		})
	}
}

// sorted returns a copy of spec with this list in order and without that one.
func sorted(spec map[string]any, list, without string) map[string]any {
	out := map[string]any{}
	for key, value := range spec {
		if key != without {
			out[key] = value
		}
	}
	if items, ok := out[list].([]any); ok {
		items = append([]any(nil), items...)
		slices.SortFunc(items, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		out[list] = items
	}
	return out
}
