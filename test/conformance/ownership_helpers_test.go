package conformance

import "strings"

// anyContains says whether one of the lines has all of the texts.
func anyContains(lines []string, texts ...string) bool {
	for _, line := range lines {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			return true
		}
	}
	return false
}

// metadata returns the metadata of an object.
func metadata(of map[string]any) map[string]any {
	meta, _ := of["metadata"].(map[string]any)
	return meta
}
