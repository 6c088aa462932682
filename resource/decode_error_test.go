package resource

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An error of decoding says which field doesn't fit, whoever decodes it.
func TestDecode_Misfit(t *testing.T) {
	type volume struct {
		Size *resource.Quantity `json:"size"`
	}
	type shared struct {
		Wait metav1.Duration `json:"wait"`
	}
	type db struct {
		Spec struct {
			shared  `json:",inline"`
			Volumes []volume                     `json:"volumes"`
			Named   map[string]*volume           `json:"named"`
			Count   int32                        `json:"count"`
			Pair    [2]bool                      `json:"pair"`
			Numbers map[int]string               `json:"numbers"`
			Limits  map[string]resource.Quantity `json:"limits"`
			Any     any                          `json:"any"`
		} `json:"spec"`
	}
	const number = "json: cannot unmarshal string into Go value of type int32"
	for name, tc := range map[string]struct {
		reason, spec, want string
	}{
		"quantity in a list": {"the items have numbers", `{"volumes":[{"size":"1Gi"},{"size":"1 Gi"}]}`, `spec.volumes[1].size: quantities must match`},
		"in a map":           {"the keys are names", `{"named":{"a.b":{"size":"x"}}}`, `spec.named["a.b"].size: quantities must match`},
		"a map's value":      {"it is a leaf", `{"limits":{"cpu":"1","memory":"x"}}`, `spec.limits.memory: quantities must match`},
		"embedded":           {"its fields are the outer one's", `{"wait":"soon"}`, `spec.wait: time: invalid duration "soon"`},
		"type":               {"the decoder's own path isn't told twice", `{"count":"x"}`, "spec.count: " + number},
		"escaped key":        {"it is the same name", `{"co\u0075nt":"x"}`, "spec.count: " + number},
		"array":              {"as lists", `{"pair":[true,1]}`, "spec.pair[1]: json: cannot unmarshal number into Go value of type bool"},
		"object":             {"a scalar in its place", `5`, "spec: json: cannot unmarshal number into Go value of type struct"},
		"list":               {"an object in its place", `{"volumes":{}}`, "spec.volumes: json: cannot unmarshal object into Go value of type []resource.volume"},
		"key":                {"no value is wrong", `{"numbers":{"x":"y"}}`, "spec.numbers: json: cannot unmarshal number x into Go value of type int"},
		"nameless key":       {"a path can't name it", `{"limits":{"":"x"}}`, "spec.limits: quantities must match"},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustNew(t, []byte(`{"apiVersion":"example.com/v1","kind":"DB","metadata":{"name":"n","namespace":"ns","uid":"u","resourceVersion":"1"},"spec":`+tc.spec+`}`))
			_, err := As[*db](r)
			require.ErrorContains(t, err, "DB ns/n: decode into resource.db: "+tc.want, tc.reason)
			require.ErrorContains(t, r.Decode(&db{}), "DB ns/n: decode into resource.db: "+tc.want)
		})
	}
	r := mustNew(t, []byte(podJSON))
	require.ErrorContains(t, r.Decode(nil), "Pod default/web: decode into <nil>: json: Unmarshal(nil)")
	_, err := As[int](r)
	require.ErrorContains(t, err, "Pod default/web: decode into int: json: cannot unmarshal object")
}
