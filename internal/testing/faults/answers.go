package faults

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Broken is a connection that broke.
func Broken(why string) error { return &brokenError{why} }

type brokenError struct{ why string }

func (e *brokenError) Error() string   { return e.why }
func (e *brokenError) Timeout() bool   { return false }
func (e *brokenError) Temporary() bool { return true }

// reasonOf returns the reason of an API server's error, empty if a code is none that an exchange may meet.
func reasonOf(code string) metav1.StatusReason {
	switch code {
	case "404":
		return metav1.StatusReasonNotFound
	case "409":
		return metav1.StatusReasonConflict
	case "429":
		return metav1.StatusReasonTooManyRequests
	case "500":
		return metav1.StatusReasonInternalError
	case "503":
		return metav1.StatusReasonServiceUnavailable
	case "504":
		return metav1.StatusReasonTimeout
	}
	return ""
}

// Refusal is the answer of an API server that does nothing.
func (x *Exchange) Refusal(code string) *http.Response {
	n, _ := strconv.Atoi(code)              // it is one that reasonOf knows
	body, _ := json.Marshal(&metav1.Status{ // it has but strings and numbers
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Message: "a fault of the storm", Reason: reasonOf(code), Code: int32(n),
		Details: &metav1.StatusDetails{Name: x.On.Name, Group: x.On.Resource.Group, Kind: x.On.Resource.Resource},
	})
	resp := x.Answer(n, "application/json", string(body))
	if n == http.StatusTooManyRequests {
		resp.Header.Set("Retry-After", "1")
	}
	return resp
}

// Answer is an answer that has all of a body.
func (x *Exchange) Answer(code int, contentType, body string) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: x.Request,
	}
}

type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
