package apierror

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTakenField_Mentions(t *testing.T) {
	for name, tc := range map[string]struct {
		message, value string
		want           bool
	}{
		"Word":           {`Duplicate value: "30080"`, "30080", true},
		"Part of a word": {`Duplicate value: "30080"`, "3008", false},
		"Later":          {"host x.example.com is taken by example.com", "example.com", true},
		"Nothing":        {"host is taken", "other", false},
		"Empty":          {"host is taken", "", false},
		"Empty, of none": {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, TakenField{message: tc.message}.Mentions(tc.value))
		})
	}
}
