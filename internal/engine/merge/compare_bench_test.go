package merge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// BenchmarkCompareUnchanged compares the 100 children of a settled parent.
func BenchmarkCompareUnchanged(b *testing.B) {
	live, desired := sample.YAML(b, liveDeployment), sample.YAML(b, desiredDeployment)
	c := Comparison{Schema: schemaOf(b, k8s.Deployment)}
	former := newFieldSet(desired, c.Schema)
	for name, former := range map[string]*FieldSet{"NoFormer": nil, "Former": former} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for range 100 {
					if c.Compare(live, desired, former) != nil {
						b.Fatal("differs")
					}
				}
			}
		})
	}
}

func BenchmarkMergeChanged(b *testing.B) {
	live, desired := sample.YAML(b, liveDeployment), sample.YAML(b, strings.Replace(desiredDeployment, "web:1", "web:2", 1))
	c := Comparison{Schema: schemaOf(b, k8s.Deployment)}
	b.ReportAllocs()
	for b.Loop() {
		c.Merge(live, desired, nil)
	}
}

func BenchmarkFieldSet(b *testing.B) {
	desired := sample.YAML(b, desiredDeployment)
	many := map[string]any{}
	for i := range 19_000 {
		many[fmt.Sprint("key-", i)] = "x"
	}
	for name, object := range map[string]map[string]any{"Deployment": desired, "ManyKeys": {"data": many}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseFieldSet(newFieldSet(object, nil).Encode(16 << 10)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
