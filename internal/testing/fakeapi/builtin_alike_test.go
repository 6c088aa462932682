package fakeapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
)

// manifests returns the objects of testdata/builtin.yaml.
func manifests(t *testing.T) (out []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile("testdata/builtin.yaml")
	require.NoError(t, err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &object.Object))
		out = append(out, object)
	}
	return out
}

// inNoNamespace says whether objects of a type are of the cluster.
func inNoNamespace(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case "PersistentVolume", "PriorityClass", "StorageClass", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		return true
	}
	return false
}

// builtInKinds returns the kinds of objects, as an API server in the process has them.
func builtInKinds(objects []*unstructured.Unstructured) (out []fakeapi.Kind) {
	seen := map[resource.Type]bool{}
	for _, object := range objects {
		of := resource.Type{APIVersion: object.GetAPIVersion(), Kind: object.GetKind()}
		if seen[of] {
			continue
		}
		seen[of] = true
		plural, _ := meta.UnsafeGuessKindToResource(of.GroupVersionKind())
		k := fakeapi.KindOf(of)
		k.Plural, k.ClusterScoped = plural.Resource, inNoNamespace(object)
		out = append(out, k)
	}
	return out
}

// A told is an answer as it came.
type told struct {
	code     int
	object   map[string]any
	warnings []string
}

// post asks for the creation of an object, as a dry run.
func post(t *testing.T, cfg *rest.Config, object *unstructured.Unstructured, query, body string) told {
	t.Helper()
	return sendText(t, cfg, http.MethodPost, object, body, "?dryRun=All"+query)
}

// send writes an object.
func send(t *testing.T, cfg *rest.Config, method string, object *unstructured.Unstructured, query, at string) told {
	t.Helper()
	body, err := object.MarshalJSON()
	require.NoError(t, err)
	return sendText(t, cfg, method, object, string(body), at+query)
}

func sendText(t *testing.T, cfg *rest.Config, method string, object *unstructured.Unstructured, body, at string) told {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(cfg)
	require.NoError(t, err)
	plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	path := "/apis/" + object.GetAPIVersion()
	if !strings.Contains(object.GetAPIVersion(), "/") {
		path = "/api/" + object.GetAPIVersion()
	}
	if !inNoNamespace(object) {
		path += "/namespaces/alike"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path+"/"+plural.Resource+at, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", asJSON)
	resp, err := httpClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	out := told{code: resp.StatusCode, warnings: resp.Header.Values("Warning")}
	require.NoError(t, json.Unmarshal(raw, &out.object), "%s", raw)
	return out
}

// ofTheCluster are the fields that an API server sets from what is in its cluster: addresses, accounts and
// labels by UID.
func ofTheCluster(kind string) [][]string {
	switch kind {
	case "Service":
		return [][]string{{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "ipFamilies"}, {"spec", "ipFamilyPolicy"}, {"spec", "healthCheckNodePort"}}
	case "Job":
		return [][]string{{"spec", "selector"}, {"spec", "template", "metadata"}}
	case "Pod":
		return [][]string{{"spec", "tolerations"}, {"spec", "priority"}, {"spec", "preemptionPolicy"}}
	}
	return nil
}

func generationOf(object map[string]any) any {
	generation, _, _ := unstructured.NestedFieldNoCopy(object, "metadata", "generation")
	return generation
}

// contentsOf returns an object without what is of the cluster, its metadata and its status.
func contentsOf(object map[string]any) map[string]any {
	kind, _ := object["kind"].(string)
	unstructured.RemoveNestedField(object, "metadata")
	unstructured.RemoveNestedField(object, "status")
	for _, path := range ofTheCluster(kind) {
		unstructured.RemoveNestedField(object, path...)
	}
	return object
}

// compareBuiltIn holds that objects of built-in types become the same on a real API server.
func compareBuiltIn(t *testing.T, realOne *rest.Config) {
	objects := manifests(t)
	simulated := fakeapi.New(builtInKinds(objects)...).RESTConfig()
	for _, object := range objects {
		t.Run(object.GetName(), func(t *testing.T) {
			body, err := object.MarshalJSON()
			require.NoError(t, err)
			want := post(t, realOne, object, "&fieldValidation=Strict", string(body))
			require.Equal(t, http.StatusCreated, want.code, "%v", want.object)
			is := post(t, simulated, object, "&fieldValidation=Strict", string(body))
			require.Equal(t, http.StatusCreated, is.code, "%v", is.object)
			require.Equal(t, generationOf(want.object), generationOf(is.object))
			require.Empty(t, differences("", contentsOf(want.object), contentsOf(is.object)))
		})
	}
	compareChanges(t, realOne, simulated, objects)
	for name, tc := range map[string]struct{ reason, was, is string }{
		"unknown":   {"a field that isn't there", `"spec":{`, `"spec":{"replica":3,`},
		"nested":    {"or that isn't there", `"image":"nginx"`, `"image":"nginx","imagePolicy":"Always"`},
		"top":       {"of the object", `"spec":{`, `"specs":{},"spec":{`},
		"meta":      {"of the metadata", `"metadata":{`, `"metadata":{"label":{},`},
		"longer":    {"a name that begins as another", `"metadata":{`, `"metadata":{"labels":{"a":"b"},"labelsFoo":{},"nameX":"b",`},
		"owner":     {"of an owner", `"metadata":{`, `"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"u","foo":"bar"}],`},
		"null":      {"a null is no label", `"metadata":{`, `"metadata":{"labels":{"x":null},`},
		"empty":     {"what is empty isn't there", `"metadata":{`, `"metadata":{"labels":{},"annotations":{},"finalizers":[],"ownerReferences":[],`},
		"duplicate": {"a field that is there twice", `"spec":{`, `"spec":{"paused":true,"paused":false,`},
		"type":      {"a text isn't a number", `"spec":{`, `"spec":{"replicas":"3",`},
		"two":       {"all are told of", `"spec":{`, `"spec":{"x":3,"y":4,`},
		"case":      {"a name in capitals is another", `"spec":{`, `"spec":{"Replicas":3,`},
	} {
		for _, level := range []string{"", "&fieldValidation=Ignore", "&fieldValidation=Warn", "&fieldValidation=Strict"} {
			t.Run(name+level, func(t *testing.T) {
				i := deploymentIn(objects)
				body, err := objects[i].MarshalJSON()
				require.NoError(t, err)
				require.Contains(t, string(body), tc.was)
				text := strings.Replace(string(body), tc.was, tc.is, 1)
				want, is := post(t, realOne, objects[i], level, text), post(t, simulated, objects[i], level, text)
				require.Equal(t, want.code, is.code, "%s: %v, %v", tc.reason, want.object, is.object)
				require.Equal(t, want.warnings, is.warnings, tc.reason)
				if want.code != http.StatusCreated {
					require.Equal(t, want.object["message"], is.object["message"])
					return
				}
				for _, field := range []string{"name", "labels", "annotations", "ownerReferences", "finalizers"} {
					wanted, _, _ := unstructured.NestedFieldNoCopy(want.object, "metadata", field)
					got, _, _ := unstructured.NestedFieldNoCopy(is.object, "metadata", field)
					require.Equal(t, wanted, got, field)
				}
				require.Empty(t, differences("", contentsOf(want.object), contentsOf(is.object)))
			})
		}
	}
}

func deploymentIn(objects []*unstructured.Unstructured) int {
	for i, object := range objects {
		if object.GetKind() == "Deployment" {
			return i
		}
	}
	return -1
}

// differences says where is isn't what is wanted.
func differences(path string, want, is any) (out []string) {
	wanted, ok1 := want.(map[string]any)
	got, ok2 := is.(map[string]any)
	if ok1 && ok2 {
		names := map[string]bool{}
		for name := range wanted {
			names[name] = true
		}
		for name := range got {
			names[name] = true
		}
		for name := range names {
			out = append(out, differences(path+"."+name, wanted[name], got[name])...)
		}
		return out
	}
	list, ok1 := want.([]any)
	items, ok2 := is.([]any)
	if ok1 && ok2 && len(list) == len(items) {
		for i := range list {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), list[i], items[i])...)
		}
		return out
	}
	if !reflect.DeepEqual(want, is) {
		out = append(out, fmt.Sprintf("%s is %v, and on a real API server %v", path, is, want))
	}
	return out
}

// selectors holds that objects can be selected by the same fields.
func selectors(t *testing.T, c *caller, name string) {
	const secrets = "/api/v1/namespaces/alike/secrets"
	for _, one := range []string{`"plain"},"data":{"k":"dg=="}`, `"typed"},"type":"example.com/t"`} {
		made := c.call(t, "POST", secrets, asJSON, `{"apiVersion":"v1","kind":"Secret","metadata":{"labels":{"n":"`+name+`"},"name":`+one+`}`)
		require.Equal(t, http.StatusCreated, made.Code)
	}
	for selector, tc := range map[string]struct {
		reason string
		names  []string
		code   int
	}{
		"metadata.name%3Dplain":                     {"by its name", []string{"plain"}, 200},
		"metadata.name!%3Dplain":                    {"by another name", []string{"typed"}, 200},
		"metadata.namespace%3Dother":                {"by a namespace that isn't this one", nil, 200},
		"type%3DOpaque":                             {"by its type, which is a default", []string{"plain"}, 200},
		"type%3Dexample.com/t":                      {"by its type", []string{"typed"}, 200},
		"type!%3DOpaque,metadata.name%3Dplain":      {"by both", nil, 200},
		"data%3Dx":                                  {"by its data it can't be", nil, 400},
		"metadata.uid%3Dx":                          {"nor by this", nil, 400},
		"type%3D%3Dexample.com/t,metadata.name%3Da": {"two signs are one", nil, 200},
	} {
		is := c.call(t, "GET", secrets+"?labelSelector=n%3D"+name+"&fieldSelector="+selector, asJSON, "")
		require.Equal(t, tc.code, is.Code, "%s: %s: %s", selector, tc.reason, is.Message)
		if tc.code != http.StatusOK {
			require.Equal(t, "BadRequest", is.Reason, selector)
		}
		var names []string
		for _, item := range is.Items {
			found, _, _ := unstructured.NestedString(item.(map[string]any), "metadata", "name")
			names = append(names, found)
		}
		require.ElementsMatch(t, tc.names, names, "%s: %s", selector, tc.reason)
	}
	next := c.watch(t, secrets+"?watch=true&labelSelector=n%3D"+name+"&fieldSelector=type%3Dexample.com/t&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan")
	event, object := next()
	require.Equal(t, "ADDED", event)
	require.Equal(t, "typed", object.Meta.Name, "a watch is of the same objects")
	event, _ = next()
	require.Equal(t, "BOOKMARK", event)
}

// compareChanges holds that the same changes are refused, and in the same words.
func compareChanges(t *testing.T, realOne, simulated *rest.Config, objects []*unstructured.Unstructured) {
	named := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		named[object.GetName()] = object
	}
	otherwise := []any{map[string]any{"key": "c", "operator": "DoesNotExist"}}
	for name, tc := range map[string]struct {
		reason, object string
		path           []string
		value          any
	}{
		"scale":        {"replicas change", "deployment", []string{"spec", "replicas"}, int64(3)},
		"selector":     {"a selector doesn't", "deployment", []string{"spec", "selector", "matchExpressions"}, otherwise},
		"daemon":       {"nor this", "daemon", []string{"spec", "selector", "matchExpressions"}, otherwise},
		"replicas":     {"nor this", "replicas", []string{"spec", "selector", "matchExpressions"}, otherwise},
		"stateful":     {"a service is the one for ever", "stateful", []string{"spec", "serviceName"}, "other"},
		"scaled":       {"replicas change", "stateful", []string{"spec", "replicas"}, int64(3)},
		"kept":         {"what becomes of claims changes", "stateful", []string{"spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted"}, "Delete"},
		"job":          {"a Job's Pods are as they are", "job", []string{"spec", "template", "spec", "activeDeadlineSeconds"}, int64(3)},
		"parallel":     {"their number at a time changes", "job", []string{"spec", "parallelism"}, int64(3)},
		"completions":  {"not their number", "job", []string{"spec", "completions"}, int64(3)},
		"indexes":      {"that of indexes doesn't without their parallelism", "indexed", []string{"spec", "backoffLimitPerIndex"}, int64(3)},
		"claim":        {"a claim is as it is", "claim", []string{"spec", "accessModes"}, []any{"ReadOnlyMany"}},
		"class":        {"but for a class, if it has none", "claim", []string{"spec", "storageClassName"}, "other"},
		"reclass":      {"of another class it can't be", "classed", []string{"spec", "storageClassName"}, "other"},
		"bound":        {"a RoleBinding is of one role", "binding", []string{"roleRef", "name"}, "other"},
		"subjects":     {"its subjects change", "binding", []string{"subjects"}, []any{}},
		"data":         {"data change", "map", []string{"data", "a"}, "x"},
		"type":         {"a Secret's type doesn't", "secret", []string{"type"}, "example.com/other"},
		"cron":         {"a schedule changes", "cron", []string{"spec", "schedule"}, "1 * * * *"},
		"frozen-data":  {"data that are immutable don't", "frozen-map", []string{"data", "a"}, "x"},
		"frozen-more":  {"nor are there more", "frozen-map", []string{"binaryData"}, map[string]any{"x": "eA=="}},
		"frozen-thaw":  {"once and for all", "frozen-map", []string{"immutable"}, false},
		"frozen-label": {"labels change", "frozen-map", []string{"metadata", "labels"}, map[string]any{"a": "b"}},
		"pod-env":      {"a Pod's containers are as they are", "on-host", []string{"spec", "restartPolicy"}, "OnFailure"},
		"pod-time":     {"its deadline may come", "on-host", []string{"spec", "activeDeadlineSeconds"}, int64(7)},
		"slice":        {"addresses are of one family", "slice", []string{"addressType"}, "IPv6"},
		"headless":     {"a Service has an address", "service", []string{"spec", "clusterIP"}, "None"},
		"annotated":    {"annotations count for a Deployment's generation", "deployment", []string{"metadata", "annotations"}, map[string]any{"a": "b"}},
		"labelled":     {"labels don't", "deployment", []string{"metadata", "labels"}, map[string]any{"a": "b"}},
		"quantity":     {"a quantity may be written in another way", "classed", []string{"spec", "resources", "requests", "storage"}, "1024Mi"},
		"template": {"in a template, too", "stateful", []string{"spec", "volumeClaimTemplates"}, []any{map[string]any{
			"metadata": map[string]any{"name": "data"},
			"spec":     map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1073741824"}}},
		}}},
		"priority":     {"a priority stays", "priority", []string{"value"}, int64(8)},
		"class-params": {"so do parameters", "class", []string{"parameters"}, map[string]any{"a": "b"}},
		"class-by":     {"and who provides", "class", []string{"provisioner"}, "example.com/q"},
		"class-keeps":  {"and what becomes of volumes", "class", []string{"reclaimPolicy"}, "Retain"},
		"volume-named": {"a claim may be bound", "claim", []string{"spec", "volumeName"}, "v"},
		"unbalanced":   {"a Service that is no load balancer any more", "balanced", []string{"spec", "type"}, "ClusterIP"},
		"inner":        {"nor on the nodes", "node-port", []string{"spec", "type"}, "ClusterIP"},
		"secret-data":  {"a Secret's, too", "frozen-secret", []string{"data", "a"}, "eA=="},
	} {
		t.Run("change-"+name, func(t *testing.T) {
			change := func(cfg *rest.Config) told {
				object := named[tc.object].DeepCopy()
				object.SetName("change-" + name)
				made := send(t, cfg, http.MethodPost, object, "", "")
				require.Equal(t, http.StatusCreated, made.code, "%v", made.object)
				object.Object = made.object
				require.NoError(t, unstructured.SetNestedField(object.Object, tc.value, tc.path...))
				return send(t, cfg, http.MethodPut, object, "", "/"+object.GetName())
			}
			want, is := change(realOne), change(simulated)
			require.Equal(t, want.code, is.code, "%s: %v, %v", tc.reason, want.object, is.object)
			if want.code == http.StatusOK {
				require.Equal(t, generationOf(want.object), generationOf(is.object), tc.reason)
				require.Empty(t, differences("", contentsOf(want.object), contentsOf(is.object)))
				return
			}
			require.Equal(t, want.object["reason"], is.object["reason"])
			require.Empty(t, differences("", causes(want), causes(is)))
		})
	}
}

// causes returns the fields that a refusal names, and how it says so, but for values.
func causes(of told) any {
	list, _, _ := unstructured.NestedSlice(of.object, "details", "causes")
	for _, item := range list {
		cause, _ := item.(map[string]any)
		text, _ := cause["message"].(string)
		text, _, _ = strings.Cut(text, "\n") // after which some tell what has changed
		cause["message"] = text[strings.LastIndex(text, ": ")+1:]
	}
	return list
}
