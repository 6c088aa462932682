package client

import (
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkAnswer returns an error unless the body of a successful answer is the API
// server's: an object with a kind, and no Status of a failure. A proxy may answer any
// request with a page on which people sign in.
func checkAnswer(raw []byte) error {
	var answer struct {
		Kind   string          `json:"kind"`
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Kind == "" {
		return errors.New("the answer isn't a Kubernetes API server's, though it says that the request was carried out: it isn't an object with a kind")
	}
	if answer.Kind == "Status" && string(answer.Status) != `"`+metav1.StatusSuccess+`"` {
		return errors.New("the answer says that the request was carried out, and is a Status that doesn't")
	}
	return nil
}
