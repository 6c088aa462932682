package testkit

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/runner"
)

// TestManagerOptions: an option of package runner that the engine has by the same name is handed on. A Kit refuses Sharding
// itself.
func TestManagerOptions(t *testing.T) {
	handed := 0
	for field := range reflect.TypeFor[runner.Options]().Fields() {
		if _, ok := reflect.TypeFor[manager.Options]().FieldByName(field.Name); !ok {
			require.Equal(t, "Sharding", field.Name)
			continue
		}
		var opts runner.Options
		given := reflect.ValueOf(&opts).Elem().FieldByIndex(field.Index)
		switch field.Type.Kind() {
		case reflect.Pointer:
			given.Set(reflect.New(field.Type.Elem()))
		case reflect.Bool:
			given.SetBool(true)
		case reflect.String:
			given.SetString(":0")
		case reflect.Int, reflect.Int64:
			given.SetInt(7)
		case reflect.Chan:
			given.Set(reflect.MakeChan(reflect.ChanOf(reflect.BothDir, field.Type.Elem()), 0))
		default: // an interface, which Metrics and TracerProvider are
			continue
		}
		handed++
		require.False(t, reflect.ValueOf(managerOptions(opts)).FieldByName(field.Name).IsZero(), field.Name)
	}
	require.Greater(t, handed, 8)
}
