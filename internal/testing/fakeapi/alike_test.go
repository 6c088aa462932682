package fakeapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

// TestServerIsLikeARealOne compares the server in the process with a real one: the same requests get
// the same responses from both.
func TestServerIsLikeARealOne(t *testing.T) {
	t.Run("InProcess", func(t *testing.T) {
		server := fakeapi.New(append(appliedKinds(), shapeKind(t), fakeapi.Custom(resource.Type{APIVersion: "sim.example.com/v1", Kind: "Parent"}, "parents"), fakeapi.Typed(fakeapi.ConfigMaps()), fakeapi.Typed(fakeapi.Secrets()), fakeapi.Namespaces())...)
		behaves(t, server.RESTConfig())
	})
	t.Run("Real", func(t *testing.T) {
		if os.Getenv("KUBEBUILDER_ASSETS") == "" || testing.Short() {
			t.Skip("needs the binaries of KUBEBUILDER_ASSETS")
		}
		cluster, err := testkit.Start(testkit.ClusterOptions{CRDPaths: []string{"testdata/crd.yaml", "testdata/shapes.yaml"}})
		require.NoError(t, err)
		defer func() { require.NoError(t, cluster.Stop()) }()
		behaves(t, cluster.RESTConfig())
		compareBuiltIn(t, cluster.RESTConfig())
	})
}

// A caller makes requests.
type caller struct {
	http *http.Client
	host string
}

// An answer is a code with an object, or with the Status that says what failed.
type answer struct {
	Code   int
	Reason string
	Kind   string
	Meta   struct {
		Name, UID, ResourceVersion, DeletionTimestamp, CreationTimestamp string

		Continue            string
		RemainingItemCount  int64
		Generation          int64
		Labels, Annotations map[string]string
		Finalizers          []string
		ManagedFields       []struct{ Manager, Operation string }
	} `json:"metadata"`
	Spec, Status any
	Items        []any
	Message      string
	Warnings     []string `json:"-"` // headers
}

const (
	asJSON  = "application/json"
	asPatch = "application/json-patch+json"
	asMerge = "application/merge-patch+json"
)

// call makes a request, again as long as the API server says that it isn't ready yet, as it does of a type that
// has just come.
func (c *caller) call(t *testing.T, method, path, contentType, body string) answer {
	t.Helper()
	out := c.try(t, method, path, contentType, body)
	for range 60 {
		if out.Code != http.StatusTooManyRequests {
			break
		}
		<-time.After(time.Second) // as its answer says
		out = c.try(t, method, path, contentType, body)
	}
	return out
}

func (c *caller) try(t *testing.T, method, path, contentType, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.host+path, bytes.NewBufferString(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var out answer
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&out))
	out.Code, out.Warnings = resp.StatusCode, resp.Header.Values("Warning")
	return out
}

// watch returns a function that reads the next event of a watch.
func (c *caller) watch(t *testing.T, path string) func() (string, answer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only bounds a hang
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.host+path, nil)
	require.NoError(t, err)
	resp, err := c.http.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { cancel(); resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	frames := bufio.NewReader(resp.Body)
	return func() (string, answer) {
		t.Helper()
		frame, err := frames.ReadBytes('\n')
		require.NoError(t, err)
		var event struct {
			Type   string
			Object answer
		}
		require.NoError(t, json.Unmarshal(frame, &event))
		return event.Type, event.Object
	}
}

func behaves(t *testing.T, cfg *rest.Config) {
	httpClient, err := rest.HTTPClientFor(cfg)
	require.NoError(t, err)
	c := &caller{httpClient, cfg.Host}
	require.Equal(t, http.StatusCreated, c.call(t, "POST", "/api/v1/namespaces", asJSON, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"alike"}}`).Code)
	for name, test := range map[string]func(t *testing.T, c *caller, name string){
		"creates": creates, "updates": updates, "statuses": statuses, "patches": patches, "deletes": deletes,
		"finalizers": finalizers, "dry-runs": dryRuns, "watches": watches, "streams": streams, "built-in": builtIn,
		"pages": pages, "preconditions": preconditions,
		"applies": applies, "applies-to": appliesTo, "schemas": schemas, "changes-of-shapes": changesOfShapes, "fields-of-shapes": fieldsOfShapes, "selectors": selectors,
	} {
		t.Run(name, func(t *testing.T) { test(t, c, name) })
	}
}

const parents = "/apis/sim.example.com/v1/namespaces/alike/parents"

// parentJSON returns a Parent with more metadata and fields as JSON.
func parentJSON(name, meta, rest string) string {
	return `{"apiVersion":"sim.example.com/v1","kind":"Parent","metadata":{"name":"` + name + `"` + meta + `}` + rest + `}`
}

func quoted(key, value string) string { return `,"` + key + `":"` + value + `"` }

func creates(t *testing.T, c *caller, name string) {
	made := c.call(t, "POST", parents, asJSON, parentJSON(name, `,"generation":7`, `,"spec":{"a":1},"status":{"b":2}`))
	require.Equal(t, http.StatusCreated, made.Code)
	require.EqualValues(t, 1, made.Meta.Generation)
	require.NotEmpty(t, made.Meta.UID)
	require.NotEmpty(t, made.Meta.ResourceVersion)
	require.NotEmpty(t, made.Meta.CreationTimestamp)
	require.Nil(t, made.Status, "it is written through its subresource")
	again := c.call(t, "POST", parents, asJSON, parentJSON(name, "", ""))
	require.Equal(t, http.StatusConflict, again.Code)
	require.Equal(t, "AlreadyExists", again.Reason)
	require.Equal(t, http.StatusUnprocessableEntity, c.call(t, "POST", parents, asJSON, parentJSON("No_Name%", "", "")).Code)
	require.Equal(t, http.StatusBadRequest, c.call(t, "POST", parents, asJSON, parentJSON("elsewhere", quoted("namespace", "other"), "")).Code)
	missing := c.call(t, "GET", parents+"/missing", asJSON, "")
	require.Equal(t, http.StatusNotFound, missing.Code)
	require.Equal(t, "NotFound", missing.Reason)
}

func updates(t *testing.T, c *caller, name string) {
	one := c.call(t, "POST", parents, asJSON, parentJSON(name, "", `,"spec":{"a":1}`))
	at := quoted("resourceVersion", one.Meta.ResourceVersion)
	same := c.call(t, "PUT", parents+"/"+name, asJSON, parentJSON(name, at, `,"spec":{"a":1},"status":{"b":2}`))
	require.Equal(t, http.StatusOK, same.Code)
	require.Equal(t, one.Meta.ResourceVersion, same.Meta.ResourceVersion, "nothing changed")
	two := c.call(t, "PUT", parents+"/"+name, asJSON, parentJSON(name, at, `,"spec":{"a":2}`))
	require.EqualValues(t, 2, two.Meta.Generation)
	require.Equal(t, one.Meta.UID, two.Meta.UID)
	require.NotEqual(t, one.Meta.ResourceVersion, two.Meta.ResourceVersion)
	late := c.call(t, "PUT", parents+"/"+name, asJSON, parentJSON(name, at, `,"spec":{"a":3}`))
	require.Equal(t, http.StatusConflict, late.Code)
	require.Equal(t, "Conflict", late.Reason)
	at = quoted("resourceVersion", two.Meta.ResourceVersion)
	labelled := c.call(t, "PUT", parents+"/"+name, asJSON, parentJSON(name, at+`,"labels":{"l":"v"}`, `,"spec":{"a":2}`))
	require.EqualValues(t, 2, labelled.Meta.Generation, "a label isn't the spec")
	at = quoted("resourceVersion", labelled.Meta.ResourceVersion)
	other := c.call(t, "PUT", parents+"/"+name, asJSON, parentJSON(name, at+quoted("uid", "another"), ""))
	require.Equal(t, http.StatusConflict, other.Code)
}

func statuses(t *testing.T, c *caller, name string) {
	one := c.call(t, "POST", parents, asJSON, parentJSON(name, "", `,"spec":{"a":1}`))
	at := quoted("resourceVersion", one.Meta.ResourceVersion)
	two := c.call(t, "PUT", parents+"/"+name+"/status", asJSON, parentJSON(name, at+`,"labels":{"l":"v"}`, `,"spec":{"a":2},"status":{"b":2}`))
	require.Equal(t, http.StatusOK, two.Code)
	require.EqualValues(t, 1, two.Meta.Generation)
	require.Equal(t, map[string]any{"a": float64(1)}, two.Spec)
	require.Equal(t, map[string]any{"b": float64(2)}, two.Status)
	require.Empty(t, two.Meta.Labels)
	require.Equal(t, http.StatusConflict, c.call(t, "PUT", parents+"/"+name+"/status", asJSON, parentJSON(name, at, `,"status":{"b":3}`)).Code)
}

func patches(t *testing.T, c *caller, name string) {
	one := c.call(t, "POST", parents, asJSON, parentJSON(name, `,"labels":{"l":"v","m":"w"}`, `,"spec":{"a":1}`))
	failed := c.call(t, "PATCH", parents+"/"+name, asPatch, `[{"op":"test","path":"/metadata/uid","value":"another"},{"op":"add","path":"/metadata/finalizers","value":["example.com/f"]}]`)
	require.Equal(t, http.StatusUnprocessableEntity, failed.Code)
	require.Equal(t, "Invalid", failed.Reason)
	for body, reason := range map[string]string{
		`[{"op":"remove","path":"/metadata/annotations"}]`:                  "there is nothing to remove",
		`[{"op":"add","path":"/metadata/annotations/a","value":"b"}]`:       "there is nothing to add to",
		`[{"op":"test","path":"/metadata/annotations/a","value":null}]`:     "what has no parent can't be tested, not for its absence either",
		`[{"op":"test","path":"/metadata/annotations","value":{"a":null}}]`: "what is absent isn't an object",
	} {
		require.Equal(t, http.StatusUnprocessableEntity, c.call(t, "PATCH", parents+"/"+name, asPatch, body).Code, reason)
	}
	require.Equal(t, http.StatusBadRequest, c.call(t, "PATCH", parents+"/"+name, asPatch, `[{`).Code)
	require.Equal(t, http.StatusBadRequest, c.call(t, "PATCH", parents+"/"+name, asMerge, `{`).Code)
	two := c.call(t, "PATCH", parents+"/"+name, asPatch, `[{"op":"test","path":"/metadata/uid","value":"`+one.Meta.UID+`"},{"op":"test","path":"/metadata/finalizers","value":null},{"op":"add","path":"/metadata/finalizers","value":["example.com/f"]}]`)
	require.Equal(t, http.StatusOK, two.Code)
	require.Equal(t, []string{"example.com/f"}, two.Meta.Finalizers)
	three := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"metadata":{"uid":"`+one.Meta.UID+`","resourceVersion":"`+two.Meta.ResourceVersion+`","labels":{"l":null},"finalizers":null}}`)
	require.Equal(t, http.StatusOK, three.Code)
	require.Equal(t, map[string]string{"m": "w"}, three.Meta.Labels)
	require.Empty(t, three.Meta.Finalizers)
	late := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"metadata":{"resourceVersion":"`+two.Meta.ResourceVersion+`","labels":{"l":"v"}}}`)
	require.Equal(t, http.StatusConflict, late.Code)
	other := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"metadata":{"uid":"another","labels":{"l":"v"}}}`)
	require.Equal(t, http.StatusUnprocessableEntity, other.Code, "a UID can't be changed")
	both := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"metadata":{"uid":"another","resourceVersion":"`+two.Meta.ResourceVersion+`","labels":{"l":"v"}}}`)
	require.Equal(t, http.StatusConflict, both.Code, "of both, the resourceVersion is looked at first")
	require.Equal(t, http.StatusNotFound, c.call(t, "PATCH", parents+"/missing", asMerge, `{}`).Code)
}

func deletes(t *testing.T, c *caller, name string) {
	one := c.call(t, "POST", parents, asJSON, parentJSON(name, "", ""))
	wrong := c.call(t, "DELETE", parents+"/"+name, asJSON, `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"another"}}`)
	require.Equal(t, http.StatusConflict, wrong.Code)
	gone := c.call(t, "DELETE", parents+"/"+name, asJSON, `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"`+one.Meta.UID+`"},"propagationPolicy":"Background"}`)
	require.Equal(t, http.StatusOK, gone.Code)
	require.Equal(t, "Status", gone.Kind)
	require.Equal(t, http.StatusNotFound, c.call(t, "GET", parents+"/"+name, asJSON, "").Code)
	require.Equal(t, http.StatusNotFound, c.call(t, "DELETE", parents+"/"+name, asJSON, "").Code)
	again := c.call(t, "POST", parents, asJSON, parentJSON(name, "", ""))
	require.NotEqual(t, one.Meta.UID, again.Meta.UID)
}

func finalizers(t *testing.T, c *caller, name string) {
	c.call(t, "POST", parents, asJSON, parentJSON(name, `,"finalizers":["example.com/f"]`, `,"spec":{"a":1}`))
	going := c.call(t, "DELETE", parents+"/"+name, asJSON, "")
	require.Equal(t, http.StatusOK, going.Code)
	require.NotEmpty(t, going.Meta.DeletionTimestamp)
	require.EqualValues(t, 2, going.Meta.Generation, "a deletion is a change of what is wanted")
	again := c.call(t, "DELETE", parents+"/"+name, asJSON, "")
	require.Equal(t, going.Meta.ResourceVersion, again.Meta.ResourceVersion)
	more := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"metadata":{"finalizers":["example.com/f","example.com/g"]}}`)
	require.Equal(t, http.StatusUnprocessableEntity, more.Code)
	changed := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"spec":{"a":2}}`)
	require.Equal(t, http.StatusOK, changed.Code, "what is being deleted can be changed")
	last := c.call(t, "PATCH", parents+"/"+name, asPatch, `[{"op":"test","path":"/metadata/finalizers","value":["example.com/f"]},{"op":"remove","path":"/metadata/finalizers"}]`)
	require.Equal(t, http.StatusOK, last.Code)
	require.Equal(t, changed.Meta.ResourceVersion, last.Meta.ResourceVersion, "the answer is from before the end")
	require.Empty(t, last.Meta.Finalizers)
	require.Equal(t, http.StatusNotFound, c.call(t, "GET", parents+"/"+name, asJSON, "").Code)
}

func dryRuns(t *testing.T, c *caller, name string) {
	made := c.call(t, "POST", parents+"?dryRun=All", asJSON, parentJSON(name, "", `,"spec":{"a":1}`))
	require.Equal(t, http.StatusCreated, made.Code)
	require.Empty(t, made.Meta.ResourceVersion)
	require.Equal(t, http.StatusNotFound, c.call(t, "GET", parents+"/"+name, asJSON, "").Code)
	one := c.call(t, "POST", parents, asJSON, parentJSON(name, "", `,"spec":{"a":1}`))
	changed := c.call(t, "PATCH", parents+"/"+name+"?dryRun=All", asMerge, `{"spec":{"a":2}}`)
	require.Equal(t, map[string]any{"a": float64(2)}, changed.Spec)
	require.Equal(t, one.Meta.ResourceVersion, changed.Meta.ResourceVersion)
	require.Equal(t, http.StatusOK, c.call(t, "DELETE", parents+"/"+name+"?dryRun=All", asJSON, "").Code)
	require.Equal(t, one, func() answer { a := c.call(t, "GET", parents+"/"+name, asJSON, ""); a.Code = one.Code; return a }())
}

// A watch tells of what enters and leaves its selector as of what comes and goes.
func watches(t *testing.T, c *caller, name string) {
	from := c.call(t, "GET", parents, asJSON, "").Meta.ResourceVersion
	next := c.watch(t, parents+"?watch=true&labelSelector=w%3D"+name+"&resourceVersion="+from)
	one := c.call(t, "POST", parents, asJSON, parentJSON(name, "", ""))
	two := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"metadata":{"labels":{"w":"`+name+`"}}}`)
	three := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"spec":{"a":2}}`)
	four := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"metadata":{"labels":{"w":null}}}`)
	five := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"metadata":{"labels":{"w":"`+name+`"}}}`)
	c.call(t, "DELETE", parents+"/"+name, asJSON, "")
	for _, want := range []struct{ event, version string }{
		{"ADDED", two.Meta.ResourceVersion}, {"MODIFIED", three.Meta.ResourceVersion},
		{"DELETED", four.Meta.ResourceVersion}, {"ADDED", five.Meta.ResourceVersion}, {"DELETED", ""},
	} {
		event, object := next()
		require.Equal(t, want.event, event)
		require.Equal(t, one.Meta.UID, object.Meta.UID)
		require.Equal(t, name, object.Meta.Labels["w"], "also what left is told of as it was before")
		if want.version != "" {
			require.Equal(t, want.version, object.Meta.ResourceVersion)
		} else {
			require.Greater(t, number(object.Meta.ResourceVersion), number(five.Meta.ResourceVersion), "a deletion has a version of its own")
		}
	}
}

// A watch may begin with the list, which a bookmark ends.
func streams(t *testing.T, c *caller, name string) {
	one := c.call(t, "POST", parents, asJSON, parentJSON(name, `,"labels":{"s":"`+name+`"}`, ""))
	next := c.watch(t, parents+"?watch=true&labelSelector=s%3D"+name+"&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan")
	event, object := next()
	require.Equal(t, "ADDED", event)
	require.Equal(t, one.Meta.ResourceVersion, object.Meta.ResourceVersion)
	event, object = next()
	require.Equal(t, "BOOKMARK", event)
	require.Equal(t, "true", object.Meta.Annotations["k8s.io/initial-events-end"])
	require.GreaterOrEqual(t, number(object.Meta.ResourceVersion), number(one.Meta.ResourceVersion))
	two := c.call(t, "PATCH", parents+"/"+name, asMerge, `{"spec":{"a":2}}`)
	event, object = next()
	require.Equal(t, "MODIFIED", event)
	require.Equal(t, two.Meta.ResourceVersion, object.Meta.ResourceVersion)
}

// A built-in kind may have no generation and no status; the items of its lists
// don't say what they are.
func builtIn(t *testing.T, c *caller, name string) {
	const configMaps = "/api/v1/namespaces/alike/configmaps"
	one := c.call(t, "POST", configMaps, asJSON, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`","labels":{"b":"c"}},"data":{"a":"b"}}`)
	require.Equal(t, http.StatusCreated, one.Code)
	require.Zero(t, one.Meta.Generation)
	list := c.call(t, "GET", configMaps+"?labelSelector=b%3Dc", asJSON, "")
	require.Len(t, list.Items, 1)
	require.NotContains(t, list.Items[0], "kind")
	require.GreaterOrEqual(t, number(list.Meta.ResourceVersion), number(one.Meta.ResourceVersion))
	gone := c.call(t, "DELETE", configMaps+"/"+name, asJSON, "")
	require.Equal(t, "Status", gone.Kind)
}

// number returns a resourceVersion as a number, -1 if it is none.
func number(version string) int64 {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
