package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/resource"
)

const echoServers = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: echoservers.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: EchoServer, plural: echoservers}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1beta1, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
`

func TestValidate_CRDs(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		crds    []string
		version string
		want    string // empty: valid
	}{
		"Good":     {"it serves the parents", []string{echoServers}, "v1", ""},
		"Other":    {"any definition may be here", []string{strings.ReplaceAll(strings.ReplaceAll(echoServers, "EchoServer", "Other"), "echoservers", "others")}, "v1", ""},
		"Bad":      {"the item and the field are named", []string{echoServers, "kind: Pod"}, "v1", "config.Operator: CRDs[1]: <nil>/Pod"},
		"Twice":    {"which one?", []string{echoServers, echoServers}, "v1", "CRDs[1]: CustomResourceDefinition echoservers.example.com: it is in CRDs[0] already"},
		"Unserved": {"the parents wouldn't be served", []string{echoServers}, "v1beta1", "Parent: example.com/v1beta1/EchoServer: the CustomResourceDefinition echoservers.example.com in CRDs doesn't serve the version v1beta1"},
		"Absent":   {"the parents wouldn't be served", []string{echoServers}, "v2", "doesn't serve the version v2"},
	} {
		t.Run(name, func(t *testing.T) {
			o := valid()
			o.Parent = resource.Type{APIVersion: "example.com/" + tc.version, Kind: "EchoServer"}
			o.Mappings = nil
			for _, text := range tc.crds {
				o.CRDs = append(o.CRDs, []byte(text))
			}
			if tc.want == "" {
				require.NoError(t, o.Validate(), tc.reason)
				return
			}
			require.ErrorContains(t, o.Validate(), tc.want, tc.reason)
		})
	}
}
