package textdiff

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	names := []string{"containers", "image", "imagePullPolicy", "name", "ports"}
	for wrong, want := range map[string]string{
		"container": "containers", "Image": "image", "imge": "image", "nam": "name", "port": "ports", "imagePulPolicy": "imagePullPolicy", "x": "", "volumes": "", "": "",
	} {
		require.Equal(t, want, Nearest(wrong, names), wrong)
	}
}
