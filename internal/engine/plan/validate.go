package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A childHeader holds the fields of a child that validation reads.
type childHeader struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string                  `json:"name"`
		GenerateName    string                  `json:"generateName"`
		Namespace       string                  `json:"namespace"`
		Labels          map[string]*string      `json:"labels"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
}

// readHeader reads the fields of a child that validation needs. The error names a
// field whose value has the wrong JSON type.
func readHeader(child map[string]any) (*childHeader, error) {
	if head := plainHeader(child); head != nil {
		return head, nil
	}
	raw, err := json.Marshal(child)
	if err != nil {
		return nil, err
	}
	head := &childHeader{}
	if err := json.Unmarshal(raw, head); err != nil {
		return nil, notAnObject(err)
	}
	return head, nil
}

// plainHeader is readHeader for most children, without a detour by JSON text. It
// returns nil for a child with owner references or with a value of a wrong type.
func plainHeader(child map[string]any) *childHeader {
	plain := true
	text := func(of map[string]any, name string) string {
		s, ok := of[name].(string)
		plain = plain && (ok || of[name] == nil)
		return s
	}
	object := func(of map[string]any, name string) map[string]any {
		m, ok := of[name].(map[string]any)
		plain = plain && (ok || of[name] == nil)
		return m
	}
	head := &childHeader{APIVersion: text(child, "apiVersion"), Kind: text(child, "kind")}
	meta, m := object(child, "metadata"), &head.Metadata
	m.Name, m.GenerateName, m.Namespace = text(meta, "name"), text(meta, "generateName"), text(meta, "namespace")
	if labels := object(meta, "labels"); len(labels) > 0 {
		m.Labels = make(map[string]*string, len(labels))
		for key, value := range labels {
			s, ok := value.(string)
			m.Labels[key] = &s
			plain = plain && ok
		}
	}
	if !plain || meta["ownerReferences"] != nil {
		return nil
	}
	return head
}

// notAnObject returns the error about a child whose header can't be read. It names
// the field that has a value of the wrong type.
func notAnObject(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: a JSON %s can't be that", wrong.Field, wrong.Value)
	}
	return fmt.Errorf("not a Kubernetes object: %w", err)
}

// validate checks the header of a child and returns the type of the child. It fills
// in the namespace, in head, if the child has to live in its parent's namespace.
func validate(s *catalog.Settings, parent *resource.Resource, head *childHeader) (*catalog.Kind, error) {
	t := resource.Type{APIVersion: head.APIVersion, Kind: head.Kind}
	m := &head.Metadata
	key := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	child := func(err error) error { return fmt.Errorf("%s %s: %w", t, object.KeyText(key), err) }
	switch {
	case t.Kind == "":
		return nil, fmt.Errorf("%q: kind: missing", m.Name)
	case t.APIVersion == "":
		return nil, fmt.Errorf("%s %q: apiVersion: missing", t.Kind, m.Name)
	case m.Name == "" && m.GenerateName != "":
		return nil, fmt.Errorf("%s: metadata.generateName: %q is refused, since a child must have the same name at every call; set metadata.name", t, m.GenerateName)
	case m.GenerateName != "":
		return nil, child(errors.New("metadata.generateName: must not be set beside a name"))
	case m.Name == "":
		return nil, fmt.Errorf("%s: metadata.name: missing", t)
	}
	k := s.Types.Of(t)
	if k == nil || k == s.Types.Parent {
		return nil, child(notConfigured(s, t))
	}
	if msgs := content.IsPathSegmentName(m.Name); len(msgs) > 0 {
		return nil, child(fmt.Errorf("metadata.name: %s", msgs[0]))
	}
	if err := placeNamespace(parent, k, &m.Namespace); err != nil {
		return nil, child(fmt.Errorf("metadata.namespace: %w", err))
	}
	if err := checkLabels(s, parent, m.Labels, t == k8s.Secret); err != nil {
		return nil, child(err)
	}
	for _, ref := range m.OwnerReferences {
		if ref.Controller != nil && *ref.Controller && ref.UID != parent.UID() {
			return nil, child(fmt.Errorf("metadata.ownerReferences: %s %s can't be the controller: the parent is", ref.Kind, ref.Name))
		}
	}
	return k, nil
}

// notConfigured returns the error about a child whose type isn't configured. It names the
// configured types that may be meant: those of the same kind in another version, say.
func notConfigured(s *catalog.Settings, t resource.Type) error {
	configured := make([]resource.Type, 0, len(s.Types.Children))
	for _, k := range s.Types.Children {
		configured = append(configured, k.Type)
	}
	if similar := catalog.SimilarTo(t, configured); len(similar) > 0 {
		return fmt.Errorf("kind: not a configured child type, but %s is; return the child as that, or add its type to config.Operator.Children", catalog.TypeList(similar))
	}
	return errors.New("kind: not a configured child type; add it to config.Operator.Children")
}

// explainUntyped says of the error about a child without a kind, or an apiVersion, what to do if the child is
// of a Go type of the handler's own.
func explainUntyped(child any, head *childHeader, err error) error {
	if head.Kind != "" && head.APIVersion != "" {
		return err
	}
	if _, ok := child.(*unstructured.Unstructured); ok || reflect.Indirect(reflect.ValueOf(child)).Kind() != reflect.Struct {
		return err
	}
	return fmt.Errorf("%w; set the TypeMeta of the %T, a type that client-go's scheme doesn't know", err, child)
}

// placeNamespace checks the namespace of a child of type k, and fills the namespace
// in if it is empty and the parent has one.
func placeNamespace(parent *resource.Resource, k *catalog.Kind, namespace *string) error {
	if k.Unserved && parent.Namespace() == "" {
		return nil // whether the type has namespaces isn't known yet
	}
	namespaced := k.Namespaced || k.Unserved // a namespaced parent can have no other children
	switch {
	case !namespaced && parent.Namespace() != "":
		return errors.New("the type is cluster-scoped, and a namespaced parent can't own it")
	case !namespaced && *namespace != "":
		return fmt.Errorf("%q: the type is cluster-scoped; leave it empty", *namespace)
	case !namespaced:
		return nil
	case parent.Namespace() == "" && *namespace == "":
		return errors.New("missing; a child of a cluster-scoped parent must name its namespace")
	case parent.Namespace() == "":
		if msgs := validation.ValidateNamespaceName(*namespace, false); len(msgs) > 0 {
			return fmt.Errorf("%q: %s", *namespace, msgs[0])
		}
		return nil
	case *namespace == "":
		*namespace = parent.Namespace()
	case *namespace != parent.Namespace():
		return fmt.Errorf("%q: a child must be in its parent's namespace, %q", *namespace, parent.Namespace())
	}
	return nil
}

// checkLabels checks the labels of a child. The engine's own labels may be there
// only with the values that the engine gives them. secret says that the child is a Secret, of which no value is
// told: labels are made from the same source as its data.
func checkLabels(s *catalog.Settings, parent *resource.Resource, labels map[string]*string, secret bool) error {
	for _, own := range [...]struct{ label, value string }{{s.Config.TrackingLabel, string(parent.UID())}, {s.Config.OwnershipLabel, s.Config.Name}} {
		if got := labels[own.label]; got != nil && *got != own.value {
			return fmt.Errorf("metadata.labels[%q]: %s is the engine's to set; leave it out", own.label, told(*got, secret))
		}
	}
	var odd []string
	for key, value := range labels {
		if value != nil && !isPlainLabel(key, *value) {
			odd = append(odd, key)
		}
	}
	slices.Sort(odd)
	var errs []error
	for _, key := range odd {
		errs = append(errs, checkLabel(key, *labels[key], secret))
	}
	return utilerrors.NewAggregate(errs)
}

// told returns a label's value for an error, unless it is that of a Secret.
func told(value string, secret bool) string {
	if secret {
		return "the value"
	}
	return strconv.Quote(value)
}

// checkLabel says what is wrong with a label, of a Secret perhaps, nil if nothing is.
func checkLabel(key, value string, secret bool) error {
	if msgs := content.IsLabelKey(key); len(msgs) > 0 {
		return fmt.Errorf("metadata.labels[%q]: the key: %s", key, msgs[0])
	}
	if msgs := content.IsLabelValue(value); len(msgs) > 0 {
		return fmt.Errorf("metadata.labels[%q]: %s: %s", key, told(value, secret), msgs[0])
	}
	return nil
}

// isPlainLabel says that a label is valid. It may return false for a valid one,
// which apimachinery then has to check. It uses no regular expressions: those of
// apimachinery cost more than the rest of a validation.
func isPlainLabel(key, value string) bool {
	prefix, name, ok := strings.Cut(key, "/")
	if !ok {
		name = key
	} else if !isPlainPrefix(prefix) {
		return false
	}
	return isLabelText(name) && (value == "" || isLabelText(value))
}

// maxLabelText bounds a label's value and the name in its key, in bytes.
const maxLabelText = 63

// isLabelText says whether s is valid as the value of a label, or as the name in
// the key of a label.
func isLabelText(s string) bool {
	if s == "" || len(s) > maxLabelText || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// isPlainPrefix says whether s is a DNS subdomain.
func isPlainPrefix(s string) bool {
	if len(s) > content.DNS1123SubdomainMaxLength {
		return false
	}
	before := byte('.')
	for i := range len(s) {
		c := s[i]
		switch {
		case isAlphanumeric(c) && (c < 'A' || c > 'Z'):
		case c == '-' && before != '.', c == '.' && before != '.' && before != '-':
		default:
			return false
		}
		before = c
	}
	return before != '.' && before != '-'
}

// isAlphanumeric says whether c is a letter or a digit of ASCII.
func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
