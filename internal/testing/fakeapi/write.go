package fakeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"

	"github.com/roperator/roperator/internal/testing/builtin"
)

// What a write may change.
type scope int

const (
	writeMain   scope = iota // everything but the status, if that is a subresource
	writeStatus              // the status alone
	writeAll
)

// write carries out a create, update or patch.
func (s *Server) write(k *Kind, r Request, admit func(Request, map[string]any) error) (is *stored, warnings []string, err error) {
	patches, by := r.Verb == "patch" || r.Verb == "apply", managerOf(r)
	if r.Verb == "apply" {
		by = "" // what was applied knows by whom
	}
	for {
		object, version, doubled, err := s.intended(k, r)
		if err != nil {
			return nil, nil, err
		}
		if admit != nil {
			if err := admit(r, object); err != nil {
				return nil, nil, err
			}
			object = clone(object) // numbers as in JSON, whatever the hook has set
		}
		s.mu.Lock()
		if patches && s.versionLocked(k, r.Key) != version {
			s.mu.Unlock() // a patch applies to what is there
			continue
		}
		if patches {
			err = s.sameLocked(k, r.Key, metaOf(object))
		}
		if err != nil {
			s.mu.Unlock()
			return nil, nil, err
		}
		w := &writing{by: by, dryRun: r.DryRun, request: &r, complaints: doubled}
		if r.Verb == "create" {
			is, err = s.createLocked(k, r.Key.Namespace, object, w)
		} else {
			is, err = s.storeLocked(k, r.Key, object, k.scope(r.Subresource), w)
		}
		s.mu.Unlock()
		return is, w.complaints, err
	}
}

func (k *Kind) scope(subresource string) scope {
	switch {
	case subresource != "":
		return writeStatus
	case k.Status:
		return writeMain
	}
	return writeAll
}

// A writing is how an object is written.
type writing struct {
	by         string // its field manager, empty if its managedFields are as they shall be
	dryRun     bool
	request    *Request // nil: it is none of a client's
	complaints []string // about fields
}

// intended returns the object that a request is about to write, of which
// version it was computed, and which fields the request has twice.
func (s *Server) intended(k *Kind, r Request) (object map[string]any, version string, doubled []string, err error) {
	if r.Verb != "patch" && r.Verb != "apply" {
		object, doubled, err := decode(k, r.Body)
		return object, "", doubled, err
	}
	s.mu.Lock()
	was, err := s.getLocked(k, r.Key)
	s.mu.Unlock()
	switch {
	case err != nil && r.Verb == "apply":
		return nil, "", nil, mustExist(k, r)
	case err != nil:
		return nil, "", nil, err
	case r.Verb == "apply":
		object, err := k.applied(was, r)
		return object, was.version, nil, err
	}
	raw := was.raw
	switch types.PatchType(r.ContentType) {
	case types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(r.Body)
		if err != nil {
			return nil, "", nil, apierrors.NewBadRequest(err.Error())
		}
		if raw, err = patch.Apply(raw); err != nil {
			return nil, "", nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
	case types.MergePatchType:
		if raw, err = jsonpatch.MergePatch(raw, r.Body); err != nil {
			return nil, "", nil, apierrors.NewBadRequest(err.Error())
		}
	default:
		return nil, "", nil, unsupported(k, r)
	}
	object, _, err = decode(k, raw)
	return object, was.version, nil, err
}

// unsupported is the answer to a patch of a kind that the server doesn't know.
func unsupported(k *Kind, r Request) error {
	return apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", k.groupResource(), r.Key.Name, r.ContentType+" isn't supported", 0, false)
}

// decode reads an object of a kind, and says which fields are there twice.
func decode(k *Kind, raw []byte) (object map[string]any, doubled []string, err error) {
	strict, err := strictjson.UnmarshalStrict(raw, &object)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	for _, one := range strict {
		doubled = append(doubled, one.Error())
	}
	if object["apiVersion"] != k.Type.APIVersion || object["kind"] != k.Type.Kind {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("the object is a %v %v, not a %s", object["apiVersion"], object["kind"], k.Type))
	}
	return object, doubled, nil
}

func (s *Server) getLocked(k *Kind, key types.NamespacedName) (*stored, error) {
	object := s.mu.objects[k][key]
	if object == nil {
		return nil, apierrors.NewNotFound(k.groupResource(), key.Name)
	}
	return object, nil
}

func (s *Server) versionLocked(k *Kind, key types.NamespacedName) string {
	if is := s.mu.objects[k][key]; is != nil {
		return is.version
	}
	return ""
}

func (s *Server) createLocked(k *Kind, namespace string, object map[string]any, w *writing) (*stored, error) {
	meta := metaOf(object)
	object["metadata"] = meta
	name := text(meta, "name")
	if prefix := text(meta, "generateName"); name == "" && prefix != "" {
		s.mu.names++
		name = fmt.Sprintf("%s%05d", prefix, s.mu.names)
		meta["name"] = name
	}
	if msgs := content.IsPathSegmentName(name); name == "" || len(msgs) > 0 {
		return nil, apierrors.NewInvalid(k.Type.GroupVersionKind().GroupKind(), name, field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, fmt.Sprint(msgs))})
	}
	if err := inNamespace(meta, namespace); err != nil {
		return nil, err
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if s.mu.objects[k][key] != nil {
		return nil, apierrors.NewAlreadyExists(k.groupResource(), name)
	}
	delete(meta, "deletionTimestamp")
	delete(meta, "generation")
	if k.scope("") == writeMain {
		delete(object, "status")
	}
	if k.NewStatus != nil {
		object["status"] = runtime.DeepCopyJSON(k.NewStatus)
	}
	if k.Generation {
		meta["generation"] = int64(1)
	}
	meta["uid"] = s.newUIDLocked(k, key)
	meta["creationTimestamp"] = now()
	delete(meta, "resourceVersion")
	object, err := k.completed(w, object)
	if err != nil {
		return nil, err
	}
	if err := k.checkNew(name, object); err != nil {
		return nil, err
	}
	return s.putLocked(k, key, k.noted(nil, object, w.by), w.dryRun), nil
}

// storeLocked takes a new state of an object. An object that is being deleted goes with its last
// finalizer: the answer then has the resourceVersion from before.
func (s *Server) storeLocked(k *Kind, key types.NamespacedName, object map[string]any, what scope, w *writing) (*stored, error) {
	is, err := s.getLocked(k, key)
	if err != nil {
		return nil, err
	}
	was := is.tree()
	object, err = merged(k, key, was, object, what)
	if err != nil {
		return nil, err
	}
	if w.request != nil || k.reader == nil || !onlyStatus(was, object) {
		if object, err = k.completed(w, object); err != nil {
			return nil, err
		}
	}
	if !equal(was, object) { // what was stored passes, whatever the schema has become
		if err := k.Schema.check(k, key.Name, object); err != nil {
			return nil, err
		}
		if err := k.updated(key.Name, was, object); err != nil {
			return nil, err
		}
	}
	if w.by != "" {
		object = k.noted(was, object, w.by)
	}
	meta := metaOf(object)
	if meta["deletionTimestamp"] != nil && len(finalizers(meta)) == 0 {
		if !w.dryRun {
			s.removeLocked(k, key, object)
		}
		return keep(object), nil
	}
	if equal(was, object) {
		return is, nil
	}
	if k.Generation && !builtin.Same(k.generational(was), k.generational(object)) {
		meta["generation"] = number(metaOf(was), "generation") + 1
	}
	return s.putLocked(k, key, object, w.dryRun), nil
}

// merged returns was as an update to object makes it.
func merged(k *Kind, key types.NamespacedName, was, object map[string]any, what scope) (map[string]any, error) {
	before, meta := metaOf(was), metaOf(object)
	conflict := func(text string) error {
		return apierrors.NewConflict(k.groupResource(), key.Name, errors.New(text))
	}
	if err := inNamespace(meta, key.Namespace); err != nil {
		return nil, err
	}
	switch version, uid := text(meta, "resourceVersion"), text(meta, "uid"); {
	case text(meta, "name") != key.Name:
		return nil, apierrors.NewBadRequest("the name of the object doesn't match the name on the URL")
	case uid != "" && uid != text(before, "uid"):
		return nil, conflict(fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, before["uid"]))
	case version != "" && version != text(before, "resourceVersion"):
		return nil, conflict("the object has been modified; please apply your changes to the latest version and try again")
	}
	if what == writeStatus {
		out := maps.Clone(was)
		delete(out, "status")
		if status := object["status"]; status != nil {
			out["status"] = status
		}
		out["metadata"] = maps.Clone(before)
		return out, nil
	}
	if err := noNewFinalizers(k, key, before, meta); err != nil {
		return nil, err
	}
	out := maps.Clone(object)
	meta = maps.Clone(meta)
	out["metadata"] = meta
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace"} {
		delete(meta, name)
		if value, ok := before[name]; ok {
			meta[name] = value
		}
	}
	for _, name := range []string{"labels", "annotations"} { // empty is absent
		if m, ok := meta[name].(map[string]any); ok && len(m) == 0 {
			delete(meta, name)
		}
	}
	if list, ok := meta["finalizers"].([]any); ok && len(list) == 0 {
		delete(meta, "finalizers")
	}
	if what == writeMain {
		delete(out, "status")
		if status, ok := was["status"]; ok {
			out["status"] = status
		}
	}
	return out, nil
}

// noNewFinalizers refuses finalizers that are added to an object that is being
// deleted.
func noNewFinalizers(k *Kind, key types.NamespacedName, before, meta map[string]any) error {
	if before["deletionTimestamp"] == nil {
		return nil
	}
	held := finalizers(before)
	for f := range finalizers(meta) {
		if _, ok := held[f]; !ok {
			path := field.NewPath("metadata", "finalizers")
			return apierrors.NewInvalid(k.Type.GroupVersionKind().GroupKind(), key.Name, field.ErrorList{
				field.Forbidden(path, "no new finalizers can be added if the object is being deleted, found new finalizers "+f),
			})
		}
	}
	return nil
}

// putLocked stores object, which gets the next resourceVersion, unless the
// request is a dry run, and returns what is the answer.
func (s *Server) putLocked(k *Kind, key types.NamespacedName, object map[string]any, dryRun bool) *stored {
	if dryRun {
		return keep(object)
	}
	metaOf(object)["resourceVersion"] = s.nextLocked()
	was, is := s.mu.objects[k][key], keep(object)
	s.mu.objects[k][key] = is
	s.logLocked(event{version: s.mu.version, kind: k, was: was, is: is})
	return is
}

// removeLocked takes away an object, of which last is the last state.
func (s *Server) removeLocked(k *Kind, key types.NamespacedName, last map[string]any) {
	was := s.mu.objects[k][key]
	delete(s.mu.objects[k], key)
	gone := maps.Clone(last)
	meta := maps.Clone(metaOf(last))
	meta["resourceVersion"], gone["metadata"] = s.nextLocked(), meta
	s.logLocked(event{version: s.mu.version, kind: k, was: was, last: keep(gone)})
}

func (s *Server) nextLocked() string {
	s.mu.version++
	return strconv.FormatInt(s.mu.version, 10)
}

func inNamespace(meta map[string]any, namespace string) error {
	if named := text(meta, "namespace"); named != "" && named != namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	delete(meta, "namespace")
	if namespace != "" {
		meta["namespace"] = namespace
	}
	return nil
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

func metaOf(object map[string]any) map[string]any {
	if meta, ok := object["metadata"].(map[string]any); ok {
		return meta
	}
	return map[string]any{}
}

func text(of map[string]any, name string) string {
	value, _ := of[name].(string)
	return value
}

func number(of map[string]any, name string) int64 {
	value, _ := of[name].(int64)
	return value
}

func finalizers(meta map[string]any) map[string]struct{} {
	list, _ := meta["finalizers"].([]any)
	out := map[string]struct{}{}
	for _, f := range list {
		if name, ok := f.(string); ok {
			out[name] = struct{}{}
		}
	}
	return out
}

// clone returns a deep copy with numbers as in JSON.
func clone(object map[string]any) map[string]any {
	raw, err := json.Marshal(object)
	if err != nil {
		return runtime.DeepCopyJSON(object)
	}
	var out map[string]any
	if err := kjson.Unmarshal(raw, &out); err != nil {
		return runtime.DeepCopyJSON(object)
	}
	return out
}
