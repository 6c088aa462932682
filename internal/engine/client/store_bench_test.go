package client

import (
	"bytes"
	"io"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// storeKinds are the kinds of the benchmarks' objects.
func storeKinds() []storeKind {
	return []storeKind{{"ConfigMap", k8s.ConfigMap, storeConfigMap}, {"Pod", k8s.Pod, storePod}}
}

type storeKind struct {
	name string
	typ  resource.Type
	make func(i, version int) runtime.Object
}

// BenchmarkStoreHeap fills a store from a watch and reports the heap per
// object with its index (B/object), the object's JSON without managedFields
// (B/json), and the heap as a part of 1.25 × (JSON + 200 B).
func BenchmarkStoreHeap(b *testing.B) {
	for _, k := range storeKinds() {
		b.Run(k.name, func(b *testing.B) {
			var perObject, perJSON float64
			for b.Loop() {
				before := liveHeap()
				m := store.New(sample.ParentType(), sample.TrackingLabel)
				for i := range storeObjects {
					frame := storeFrame(b, "ADDED", k.make(i, i))
					_, obj, err := streamDecoder(wireSerializer{}.SupportedMediaTypes()[0], io.NopCloser(bytes.NewReader(frame))).Decode()
					require.NoError(b, err)
					m.Observe(store.Stream{Type: k.typ}, obj.(*WireObject).Resource)
				}
				perObject = float64(liveHeap()-before) / storeObjects
				objects, size := m.Usage(k.typ)
				require.Equal(b, storeObjects, objects)
				perJSON = float64(size) / storeObjects
			}
			b.ReportMetric(perObject, "B/object")
			b.ReportMetric(perJSON, "B/json")
			b.ReportMetric(perObject/(1.25*(perJSON+200)), "of-bound")
		})
	}
}

// liveHeap returns the bytes of reachable memory.
func liveHeap() int64 {
	goruntime.GC()
	goruntime.GC() // memory that finalizers and weak pointers held during the first collection
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkStoreEvent decodes one event and stores its object. For comparison,
// client-go's stream decoders decode the same object, in the formats that its
// typed and dynamic clients ask for.
func BenchmarkStoreEvent(b *testing.B) {
	const objects, versions = 250, 4
	for _, k := range storeKinds() {
		infos := wireInfos()
		for _, format := range []string{"ours", "protobuf", "json", "unstructured"} {
			info := infos[format]
			var wire bytes.Buffer
			encodings := info
			if format == "ours" || format == "unstructured" {
				encodings = infos["json"]
			}
			encoder := restwatch.NewEncoder(streaming.NewEncoder(encodings.StreamSerializer.NewFrameWriter(&wire), encodings.StreamSerializer.Serializer), encodings.Serializer)
			for version := range versions {
				for i := range objects {
					require.NoError(b, encoder.Encode(&watch.Event{Type: watch.Modified, Object: k.make(i, version*objects+i)}))
				}
			}
			b.Run(k.name+"/"+format, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(wire.Len() / objects / versions))
				var m *store.Store
				var decoder watch.Decoder
				for i := 0; b.Loop(); i++ {
					if i%(objects*versions) == 0 {
						decoder = streamDecoder(info, io.NopCloser(bytes.NewReader(wire.Bytes())))
						m = store.New(sample.ParentType(), sample.TrackingLabel)
					}
					_, obj, err := decoder.Decode()
					if err != nil {
						b.Fatal(err)
					}
					if ours, ok := obj.(*WireObject); ok && len(m.Observe(store.Stream{Type: k.typ}, ours.Resource).Parents) == 0 {
						b.Fatal("not stored")
					}
				}
			})
		}
	}
}

// wireInfos are the serializers of our client, of client-go's typed clients and
// of its dynamic one.
func wireInfos() map[string]runtime.SerializerInfo {
	infos := map[string]runtime.SerializerInfo{"ours": wireSerializer{}.SupportedMediaTypes()[0]}
	for _, info := range scheme.Codecs.SupportedMediaTypes() {
		switch info.MediaType {
		case runtime.ContentTypeProtobuf:
			infos["protobuf"] = info
		case runtime.ContentTypeJSON:
			infos["json"] = info
		}
	}
	dynamic := infos["json"]
	dynamic.Serializer = unstructured.UnstructuredJSONScheme
	dynamic.StreamSerializer = &runtime.StreamSerializerInfo{
		EncodesAsText: true, Framer: jsonserializer.Framer,
		Serializer: jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, jsonserializer.SerializerOptions{}),
	}
	infos["unstructured"] = dynamic
	return infos
}

// BenchmarkStoreObserve stores one event, among 1,000 and among 100,000 stored
// objects.
func BenchmarkStoreObserve(b *testing.B) {
	for _, stored := range []int{1_000, 100_000} {
		m := store.New(sample.ParentType(), sample.TrackingLabel)
		newest := make([]*resource.Resource, 0, 1000)
		for i := range stored {
			res, err := resource.New(storeConfigMap(i, i))
			require.NoError(b, err)
			m.Observe(store.Stream{Type: k8s.ConfigMap}, res)
		}
		b.Run(map[int]string{1_000: "1000", 100_000: "100000"}[stored], func(b *testing.B) {
			version := 200_000
			for i := 0; b.Loop(); i++ {
				if i%1000 == 0 {
					b.StopTimer()
					newest = newest[:0]
					for j := range 1000 {
						version++
						res, err := resource.New(storeConfigMap(j*7919%stored, version))
						require.NoError(b, err)
						newest = append(newest, res)
					}
					b.StartTimer()
				}
				m.Observe(store.Stream{Type: k8s.ConfigMap}, newest[i%1000])
			}
		})
	}
}
