package conformance

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

func TestC144_LearnedField(t *testing.T) {
	scenario(t, "C144", "a field that the CRD's schema has pruned and then learned is stored when the desired state changes, and at a restart")
	for name, restart := range map[string]bool{"change": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group, kind, plural := name+".learns.roperator.com", "Learner", "learners"
			crd := func(fields string) string {
				return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + plural + `.` + group + `"},"spec":{
					"group":"` + group + `","scope":"Namespaced","names":{"kind":"` + kind + `","plural":"` + plural + `","singular":"learner"},
					"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{` + fields + `}}}}}}]}}`
			}
			typed, untyped := clients(t, "somebody")
			crds := untyped.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
			learners := schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
			install := func(fields string) {
				_, err := crds.Patch(t.Context(), plural+"."+group, types.ApplyPatchType, []byte(crd(fields)), metav1.PatchOptions{FieldManager: "somebody"})
				require.NoError(t, err)
			}
			install(`"size":{"type":"integer"}`)
			t.Cleanup(func() {
				require.NoError(t, crds.Delete(context.Background(), plural+"."+group, metav1.DeleteOptions{}))
			})
			eventually(t, "the type is served", func() bool {
				_, err := untyped.Resource(learners).Namespace("default").List(t.Context(), metav1.ListOptions{})
				return err == nil
			})
			typ := resource.Type{APIVersion: group + "/v1", Kind: kind}
			s := newStageWith(t, operator("c144-learned-"+name, childrenBy(config.Replace, typ)...), testkit.KitOptions{FieldValidation: "Warn"})
			child := func(size int) map[string]any {
				return manifest(t, fmt.Sprintf(`{apiVersion: %s/v1, kind: %s, metadata: {name: one}, spec: {size: %d, color: red}}`, group, kind, size))
			}
			s.want(child(1))
			require.Nil(t, s.field(child(1), "spec", "color"), "pruned")
			from := needsAudit(t).mark(t)
			install(`"size":{"type":"integer"},"color":{"type":"string"}`)
			eventually(t, "the API server knows the field", func() bool {
				probe := child(1)
				probe["metadata"] = map[string]any{"name": "probe"}
				made, err := untyped.Resource(learners).Namespace(s.Namespace).Create(t.Context(), &unstructured.Unstructured{Object: probe}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				require.NoError(t, err)
				color, _, _ := unstructured.NestedString(made.Object, "spec", "color")
				return color == "red"
			})
			var document string // with a hash of its content
			eventually(t, "the API server tells of the field", func() bool {
				paths, err := typed.Discovery().OpenAPIV3().Paths()
				require.NoError(t, err)
				of := paths["apis/"+group+"/v1"]
				document = of.ServerRelativeURL()
				text, err := of.Schema("application/json")
				return err == nil && strings.Contains(string(text), `"color"`)
			})
			if restart {
				s.rebuild(s.config, nil, child(1))
			} else {
				s.want(child(2))
			}
			require.Equal(t, "red", s.field(child(1), "spec", "color"))
			eventually(t, "the operator reads the new schema", func() bool {
				return slices.ContainsFunc(needsAudit(t).since(t, from, s.config.Name), func(r request) bool {
					return strings.Contains(r.String(), document)
				})
			})
			settle(t, s.Kit)
			// The API server ends watches for the change, some of them late. For half a minute after the last
			// one, the schema may have changed, and is read. A second after each, one list tells whether etcd
			// was restored (S356).
			lists := 0
			quietBut(t, func(r request) bool {
				if uri, err := url.Parse(r.URI); err == nil && r.Verb == "list" && uri.Query().Get("limit") == "1" {
					lists++
					return lists <= 2
				}
				return strings.HasPrefix(r.String(), "get /openapi/v3")
			}, s.config.Name)
		})
	}
}
