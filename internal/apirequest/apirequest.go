// Package apirequest reads from an HTTP request what it asks of the Kubernetes
// API:
//
//	info := apirequest.Parse(req) // PUT /apis/apps/v1/namespaces/ns/deployments/web/status
//	fmt.Println(info.Verb, info.Resource.Resource, info.Namespace, info.Name, info.Subresource)
//	// update deployments ns web status
package apirequest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Info is what a request asks for.
type Info struct {
	// Verb is get, list, watch, create, update, patch, apply, delete or
	// deletecollection. A request that isn't about objects has one too, by its
	// HTTP method: that for /version is a get.
	Verb string
	// Resource is the zero value if the request isn't about objects.
	Resource schema.GroupVersionResource
	// Namespace, Name and Subresource are empty where the path has none.
	Namespace, Name, Subresource string
	// Rest is what follows the subresource, as in the path of a proxy.
	Rest string
}

// Parse reads the method, the path, the query and the Content-Type of a
// request. It takes the request of a client as well as that of a server, and
// skips a prefix of the path that a proxy in front of the API server wants.
func Parse(req *http.Request) Info {
	var info Info
	if resource, path, ok := groupVersion(req.URL.Path); ok {
		info.Resource = resource
		info.readPath(path)
	}
	info.Verb = info.verb(req)
	return info
}

// Body reads the body of a request, which it leaves open. It is nil if there is none.
func Body(req *http.Request) ([]byte, error) {
	switch {
	case req.Body == nil:
		return nil, nil
	case req.ContentLength <= 0: // it isn't known
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, fmt.Errorf("request: body: %w", err)
		}
		return body, nil
	}
	body := make([]byte, req.ContentLength)
	if _, err := io.ReadFull(req.Body, body); err != nil {
		return nil, fmt.Errorf("request: body: %w", err)
	}
	return body, nil
}

// NameIn returns the name of the object in the body of a creation, whose path has none. It is empty if
// the body is no JSON, or has no name.
func NameIn(body []byte) string {
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	return object.Metadata.Name
}

// groupVersion returns the group and version that a path of objects names, and
// what follows them.
func groupVersion(path string) (schema.GroupVersionResource, []string, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		switch rest := parts[i+1:]; {
		case part == "api" && len(rest) > 0 && rest[0] == "v1":
			return schema.GroupVersionResource{Version: rest[0]}, rest[1:], len(rest) > 1
		case part == "apis":
			if len(rest) < 3 {
				return schema.GroupVersionResource{}, nil, false
			}
			return schema.GroupVersionResource{Group: rest[0], Version: rest[1]}, rest[2:], true
		}
	}
	return schema.GroupVersionResource{}, nil, false
}

// readPath reads what follows the group and the version. Namespaces are objects
// too: their own subresources come in the place of the resources in them.
func (i *Info) readPath(path []string) {
	if len(path) > 2 && path[0] == "namespaces" && !slices.Contains([]string{"status", "finalize"}, path[2]) {
		i.Namespace, path = path[1], path[2:]
	}
	if len(path) > 3 {
		i.Rest = strings.Join(path[3:], "/")
	}
	path = append(path, "", "")
	i.Resource.Resource, i.Name, i.Subresource = path[0], path[1], path[2]
}

func (i *Info) verb(req *http.Request) string {
	ofMany := i.Resource.Resource != "" && i.Name == ""
	switch req.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		if strings.HasPrefix(req.Header.Get("Content-Type"), "application/apply-patch+") {
			return "apply"
		}
		return "patch"
	case http.MethodDelete:
		if ofMany {
			return "deletecollection"
		}
		return "delete"
	}
	switch {
	case ofMany && watches(req):
		return "watch"
	case ofMany:
		return "list"
	}
	return "get"
}

// watches reads the parameter watch as the API server does.
func watches(req *http.Request) bool {
	values, on := req.URL.Query()["watch"], false
	err := runtime.Convert_Slice_string_To_bool(&values, &on, nil)
	return err == nil && on
}
