package merge

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParsedFieldSets(t *testing.T) {
	p := NewParsedFieldSets()
	long := "data{" + strings.Repeat("a", maxParsed) + "}"
	var texts []string
	for _, name := range "abcdefghijklmnopqrstuvwxyz" { // some share a slot
		texts = append(texts, "data{"+string(name)+"}", "metadata{labels{"+string(name)+"}}", "spec{"+string(name)+"*}", "spec{"+string(name)+"{b,c}}")
	}
	texts = append(texts, "", "*", "data{", "data{b,a}", long)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				for _, text := range texts {
					want, wantErr := ParseFieldSet(text)
					got, err := p.Parse(text)
					if !sameSet(want, got) || (err == nil) != (wantErr == nil) {
						t.Errorf("%s: %v instead of %v", text, err, wantErr)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	first, err := p.Parse("data{a}")
	require.NoError(t, err)
	again, err := p.Parse("data{" + strings.Clone("a") + "}")
	require.NoError(t, err)
	require.Same(t, first, again, "it isn't parsed again")
	require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = p.Parse("data{a}") }))
}

func sameSet(want, got *FieldSet) bool {
	if want == nil || got == nil {
		return want == got
	}
	return want.Encode(maxText) == got.Encode(maxText)
}
