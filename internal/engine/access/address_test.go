package access

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocal(t *testing.T) {
	for address, tc := range map[string]struct {
		reason, want string
		loopback     bool
	}{
		":8082":                   {"on this machine unless told otherwise", "127.0.0.1:8082", true},
		"127.0.0.1:1":             {"said", "127.0.0.1:1", true},
		"127.8.9.1:1":             {"all of 127.0.0.0/8 is", "127.8.9.1:1", true},
		"[::1]:1":                 {"said", "[::1]:1", true},
		"[::ffff:127.0.0.1]:1":    {"the same in IPv6", "[::ffff:127.0.0.1]:1", true},
		"localhost:1":             {"a name that is never somebody else's", "localhost:1", true},
		"LocalHost:1":             {"names have no case", "LocalHost:1", true},
		"0.0.0.0:1":               {"everywhere", "0.0.0.0:1", false},
		"[::]:1":                  {"everywhere", "[::]:1", false},
		"10.0.0.1:1":              {"another", "10.0.0.1:1", false},
		"example.com:1":           {"a name may mean anything", "example.com:1", false},
		"localhost.example.com:1": {"a name may mean anything", "localhost.example.com:1", false},
		"8082":                    {"no address: Listen says so", "8082", false},
	} {
		t.Run(address, func(t *testing.T) {
			require.Equal(t, tc.want, Local(address), tc.reason)
			require.Equal(t, tc.loopback, IsLoopback(Local(address)), tc.reason)
		})
	}
}
