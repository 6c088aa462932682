package testkit

import (
	"fmt"

	"github.com/roperator/roperator/internal/recording"
)

// byNumber hides values behind numbers, in the order in which they come: equal values
// behind equal ones. It isn't safe for concurrent use.
func byNumber() recording.Hider {
	numbers := map[string]int{}
	return func(value string) string {
		if numbers[value] == 0 {
			numbers[value] = len(numbers) + 1
		}
		return fmt.Sprint("hidden:", numbers[value])
	}
}

// hidden returns an object without what isn't told, as recordings do.
func hidden(object map[string]any, hide recording.Hider) map[string]any {
	return recording.Hidden(object, hide)
}
