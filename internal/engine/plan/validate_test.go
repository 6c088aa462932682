package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource/k8s"
)

func TestIsPlainLabel(t *testing.T) {
	long := strings.Repeat("a", maxLabelText)
	cases := map[string]struct {
		reason     string
		key, value string
		want       bool
	}{
		"Plain":        {"as most are", "app", "web-1_a.B", true},
		"Empty":        {"a value may be empty", "app", "", true},
		"Prefix":       {"as the recommended ones", "app.kubernetes.io/name", "web", true},
		"Long":         {"as long as may be", long, long, true},
		"TooLong":      {"a byte more", "app", long + "a", false},
		"LongPrefix":   {"as long as may be", strings.Repeat("a.", 126) + "a/n", "", true},
		"TooLongOne":   {"a byte more", strings.Repeat("a.", 126) + "aa/n", "", false},
		"NoName":       {"a key has a name", "example.com/", "", false},
		"NoPrefix":     {"a slash has something before it", "/name", "", false},
		"TwoSlashes":   {"one at most", "a/b/c", "", false},
		"UpperPrefix":  {"hosts are in lower case", "Example.com/name", "", false},
		"DashPrefix":   {"a part begins with a letter", "a.-b/name", "", false},
		"DashEnd":      {"and ends with one", "a-.b/name", "", false},
		"DashAtAll":    {"and so does the last", "a.b-/name", "", false},
		"EmptyPart":    {"and isn't empty", "a..b/name", "", false},
		"ValueEnd":     {"values end with a letter, too", "app", "web-", false},
		"ValueStart":   {"and begin with one", "app", ".web", false},
		"ValueSpace":   {"and have no others", "app", "a b", false},
		"ValueUnicode": {"of ASCII", "app", "ä", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, isPlainLabel(tc.key, tc.value), tc.reason)
			errs := metavalidation.ValidateLabels(map[string]string{tc.key: tc.value}, nil)
			require.Equal(t, tc.want, len(errs) == 0, "as apimachinery says")
			if err := checkLabel(tc.key, tc.value, false); tc.want {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, fmt.Sprintf("metadata.labels[%q]: ", tc.key), "which label it is")
			}
		})
	}
}

// FuzzIsPlainLabel: what is taken for valid is valid for apimachinery, and what isn't for checkLabel isn't either.
func FuzzIsPlainLabel(f *testing.F) {
	f.Add("app.kubernetes.io/name", "web-1")
	f.Add("a-b.c/d_e", "")
	f.Fuzz(func(t *testing.T, key, value string) {
		valid := len(metavalidation.ValidateLabels(map[string]string{key: value}, nil)) == 0
		require.True(t, valid || !isPlainLabel(key, value))
		require.Equal(t, valid, checkLabel(key, value, false) == nil)
	})
}

// Each label that is wrong is named, in the same order every time.
func TestDesire_Labels(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	child := testConfigMap("v")
	child.Labels = map[string]string{"b": "not this", "a": "-", "good": "yes", "c/d/e": "x", "odd": "ä"}
	for range 20 { // the order of a map is chance
		_, err := Desire(s, parent, []any{child}, &ParentMemory{})
		require.Regexp(t, `metadata.labels\["a"\]: "-": .*metadata.labels\["b"\]: "not this": .*metadata.labels\["c/d/e"\]: the key: .*metadata.labels\["odd"\]: "ä": `, err.Error())
		require.NotContains(t, err.Error(), "good")
	}
}

// What is wrong with a Secret's labels is said without their values.
func TestDesire_LabelsOfSecret(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.Secret, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	for key, want := range map[string]string{"a": `metadata.labels["a"]: the value: `, s.Config.OwnershipLabel: "the value is the engine's to set"} {
		child := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "labels": map[string]any{key: "s3cret!"}}}
		_, err := Desire(s, parent, []any{child}, &ParentMemory{})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "s3cret")
	}
}
