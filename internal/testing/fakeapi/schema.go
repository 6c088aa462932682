package fakeapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// A Schema is that of a version of a CustomResourceDefinition: it drops unknown fields, fills in
// defaults and validates, as an API server does. Of CEL rules it knows nothing.
type Schema struct {
	structural *schema.Structural
	validator  *validate.SchemaValidator
}

// NewSchema reads an openAPIV3Schema. That of a version that has none is nil.
func NewSchema(openAPIV3 map[string]any) (*Schema, error) {
	if openAPIV3 == nil {
		return nil, nil
	}
	raw, err := json.Marshal(openAPIV3)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	var external apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(raw, &external); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&external, &internal, nil); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &Schema{structural, validate.NewSchemaValidator(structural.ToKubeOpenAPI(), nil, "", strfmt.Default)}, nil
}

// complete drops from an object what its schema doesn't know, and fills in defaults. It returns which
// fields it has dropped.
func (s *Schema) complete(object map[string]any) (unknown []string) {
	for _, path := range pruning.PruneWithOptions(object, s.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		unknown = append(unknown, fmt.Sprintf("unknown field %q", path))
	}
	fill(object, s.structural)
	return unknown
}

// check says what is wrong with an object.
func (s *Schema) check(k *Kind, name string, object map[string]any) error {
	if s == nil {
		return nil
	}
	result := s.validator.Validate(object)
	if result.IsValid() {
		return nil
	}
	var list field.ErrorList
	for _, err := range result.Errors {
		at, text, found := strings.Cut(err.Error(), " in body ")
		if !found {
			at, text = "", err.Error()
		}
		list = append(list, field.Invalid(field.NewPath(at), nil, text))
	}
	return apierrors.NewInvalid(k.Type.GroupVersionKind().GroupKind(), name, list)
}

// fill fills in defaults, and drops nulls where there may be none.
func fill(v any, s *schema.Structural) {
	if s == nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name := range s.Properties {
			property := s.Properties[name]
			value, has := v[name]
			if has && (value != nil || property.Nullable) {
				continue
			}
			if delete(v, name); property.Default.Object != nil {
				v[name] = runtime.DeepCopyJSONValue(property.Default.Object)
			}
		}
		for name, value := range v {
			if property, known := s.Properties[name]; known {
				fill(value, &property)
			} else if s.AdditionalProperties != nil {
				fill(value, s.AdditionalProperties.Structural)
			}
		}
	case []any:
		for _, item := range v {
			fill(item, s.Items)
		}
	}
}
