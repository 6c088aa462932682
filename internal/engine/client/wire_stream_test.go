package client

import (
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
)

// streamDecoder is made as rest.Request.Watch makes it of a response.
func streamDecoder(info runtime.SerializerInfo, body io.ReadCloser) watch.Decoder {
	return restwatch.NewDecoder(streaming.NewDecoder(info.StreamSerializer.NewFrameReader(body), info.StreamSerializer.Serializer), info.Serializer)
}
