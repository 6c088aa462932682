package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestEffects: a write that only puts items in another order changes something, where their
// order means something, and so does one by which an empty list or object comes or goes.
func TestEffects(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.Deployment, Strategy: config.Replace}, config.Child{Type: k8s.Service, Strategy: config.Replace})
	for name, tc := range map[string]struct {
		reason        string
		of            resource.Type
		before, after string
		want          []string // the paths
	}{
		"Containers":        {"The first one is the one that tools show.", k8s.Deployment, `{template: {spec: {containers: [{name: a}, {name: b}]}}}`, `{template: {spec: {containers: [{name: b}, {name: a}]}}}`, []string{"spec.template.spec.containers"}},
		"One comes":         {"The others are in their order.", k8s.Deployment, `{template: {spec: {containers: [{name: a}, {name: b}]}}}`, `{template: {spec: {containers: [{name: a}, {name: x}, {name: b}]}}}`, []string{`spec.template.spec.containers[name="x"]`}},
		"One goes":          {"So they are here.", k8s.Deployment, `{template: {spec: {containers: [{name: a}, {name: x}, {name: b}]}}}`, `{template: {spec: {containers: [{name: a}, {name: b}]}}}`, []string{`spec.template.spec.containers[name="x"]`}},
		"Ports":             {"Their order means nothing.", k8s.Service, `{ports: [{port: 1, name: a}, {port: 2, name: b}]}`, `{ports: [{port: 2, name: b}, {port: 1, name: a}]}`, nil},
		"Empty list goes":   {"There was one.", k8s.Deployment, `{template: {spec: {containers: [{name: a, args: []}]}}}`, `{template: {spec: {containers: [{name: a}]}}}`, []string{`spec.template.spec.containers[name="a"].args`}},
		"Empty list comes":  {"There is one.", k8s.Deployment, `{template: {spec: {containers: [{name: a}]}}}`, `{template: {spec: {containers: [{name: a, args: []}]}}}`, []string{`spec.template.spec.containers[name="a"].args`}},
		"Empty object goes": {"There was one.", k8s.Deployment, `{template: {spec: {securityContext: {}}}}`, `{template: {spec: {}}}`, []string{"spec.template.spec.securityContext"}},
		"As they are":       {"Nothing has changed.", k8s.Deployment, `{template: {spec: {containers: [{name: a}, {name: b}]}}}`, `{template: {spec: {containers: [{name: a}, {name: b}]}}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			object := func(spec string) *resource.Resource {
				out, err := resource.New(sample.YAML(t, "{apiVersion: "+tc.of.APIVersion+", kind: "+tc.of.Kind+", metadata: {name: one, uid: one, resourceVersion: '1'}, spec: "+spec+"}"))
				require.NoError(t, err)
				return out
			}
			var paths []string
			for _, f := range Effects(s, s.Types.Of(tc.of), object(tc.before), object(tc.after)) {
				paths = append(paths, f.Path)
			}
			require.Equal(t, tc.want, paths, tc.reason)
		})
	}
}
