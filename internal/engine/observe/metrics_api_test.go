package observe

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCodeOf: a metric has only codes that HTTP defines. A webhook may choose any, such as
// a PIN.
func TestCodeOf(t *testing.T) {
	for code, want := range map[int]string{200: "200", 201: "201", 404: "404", 422: "422", 471: "other", 999: "other"} {
		require.Equal(t, want, codeOf(&http.Response{StatusCode: code}, nil))
	}
	require.Equal(t, "error", codeOf(nil, errors.New("lost")))
}
