package client

import (
	"encoding/json"
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// metadataOnly asks for an object with nothing but its metadata. An API server that
// can't leave the rest out sends it.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// errNoAnswer is the error about a successful answer that isn't an API server's.
var errNoAnswer = errors.New("the answer isn't a Kubernetes API server's, though it says that the request was carried out: it isn't an object with a kind")

// checkObject returns an error unless an object of this kind may answer a request for an
// object. A proxy may answer any request with a page on which people sign in.
func checkObject(kind string) error {
	if kind == "" || kind == "Status" {
		return errNoAnswer
	}
	return nil
}

// checkList returns an error unless an object of this kind may answer a request for a list.
func checkList(kind string) error {
	if !strings.HasSuffix(kind, "List") {
		return errors.New("the answer isn't a list of a Kubernetes API server")
	}
	return nil
}

// checkAnswer returns an error unless the body of a successful answer is the API
// server's: an object with a kind, and no Status of a failure.
func checkAnswer(raw []byte) error {
	var answer struct {
		Kind   string          `json:"kind"`
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Kind == "" {
		return errNoAnswer
	}
	if answer.Kind == "Status" && string(answer.Status) != `"`+metav1.StatusSuccess+`"` {
		return errors.New("the answer says that the request was carried out, and is a Status that doesn't")
	}
	return nil
}
