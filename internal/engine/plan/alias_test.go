package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func TestSpellOut(t *testing.T) {
	for name, test := range map[string]struct {
		reason  string
		of      resource.Type
		desired string
		want    string
	}{
		"stringData": {"it is stored as data", k8s.Secret, `{stringData: {a: x, b: ""}, data: {c: eg==}}`, `{data: {a: eA==, b: "", c: eg==}}`},
		"both":       {"stringData wins, as it does with the API server", k8s.Secret, `{stringData: {a: x}, data: {a: eg==}}`, `{data: {a: eA==}}`},
		"null":       {"null says nothing", k8s.Secret, `{stringData: {a: null}, data: null}`, `{data: null}`},
		"number":     {"that it is no string is for the API server to say", k8s.Secret, `{stringData: {a: 1, b: x}}`, `{stringData: {a: 1}, data: {b: eA==}}`},
		"configmap":  {"another type may have a field of that name", k8s.ConfigMap, `{stringData: {a: x}}`, `{stringData: {a: x}}`},
		"pod":        {"the alias is the server's", k8s.Pod, `{spec: {serviceAccountName: a}}`, `{spec: {serviceAccountName: a, serviceAccount: a}}`},
		"alias":      {"both ways", k8s.Pod, `{spec: {serviceAccount: a}}`, `{spec: {serviceAccountName: a, serviceAccount: a}}`},
		"differ":     {"the new name wins", k8s.Pod, `{spec: {serviceAccountName: a, serviceAccount: b}}`, `{spec: {serviceAccountName: a, serviceAccount: a}}`},
		"none":       {"nothing is made up", k8s.Pod, `{spec: {nodeName: a}}`, `{spec: {nodeName: a}}`},
		"deployment": {"templates, too", k8s.Deployment, `{spec: {template: {spec: {serviceAccountName: a}}}}`, `{spec: {template: {spec: {serviceAccountName: a, serviceAccount: a}}}}`},
		"cronjob": {
			"and templates of templates", k8s.CronJob, `{spec: {jobTemplate: {spec: {template: {spec: {serviceAccountName: a}}}}}}`,
			`{spec: {jobTemplate: {spec: {template: {spec: {serviceAccountName: a, serviceAccount: a}}}}}}`,
		},
		"aggregated":  {"a controller fills in the rules", k8s.ClusterRole, `{aggregationRule: {}, rules: []}`, `{aggregationRule: {}}`},
		"rules":       {"of another ClusterRole the handler does", k8s.ClusterRole, `{aggregationRule: null, rules: []}`, `{aggregationRule: null, rules: []}`},
		"podtemplate": {"wherever the template is", k8s.PodTemplate, `{template: {spec: {serviceAccountName: a}}}`, `{template: {spec: {serviceAccountName: a, serviceAccount: a}}}`},
		"custom": {
			"nobody fills in the fields of a custom resource", resource.Type{APIVersion: "example.com/v1", Kind: "App"},
			`{spec: {template: {spec: {serviceAccountName: a}}}}`, `{spec: {template: {spec: {serviceAccountName: a}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			desired := sample.YAML(t, test.desired)
			spellOut(test.of, listkeys.For(test.of), desired)
			require.Equal(t, sample.YAML(t, test.want), desired, test.reason)
		})
	}
}
