package client

import (
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
)

// streamDecoder returns the decoder that rest.Request.Watch makes for a response.
func streamDecoder(info runtime.SerializerInfo, body io.ReadCloser) watch.Decoder {
	return restwatch.NewDecoder(streaming.NewDecoder(info.StreamSerializer.NewFrameReader(body), info.StreamSerializer.Serializer), info.Serializer)
}
