package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// all are odds by which much happens.
func all() Odds {
	return Odds{Rate: 0.3, Outcomes: []string{"409", "500"}, Kill: 0.1, Soon: 0.4, Slow: 0.1}
}

// things returns the names of things that may meet faults, each several times.
func things() (out []string) {
	for range 4 {
		for i := range 50 {
			out = append(out, fmt.Sprint("thing ", i))
		}
	}
	return out
}

// drawn returns what things meet, by name and number.
func drawn(d *Dice, things []string) map[string]Fault {
	out, count := map[string]Fault{}, map[string]int{}
	for _, name := range things {
		count[name]++
		out[numbered(name, count[name])] = d.Next(name, all())
	}
	return out
}

func TestDiceAreTheSeeds(t *testing.T) {
	others := 0
	for seed := range uint64(30) {
		inOrder := things()
		shuffled := slices.Clone(inOrder)
		rand.New(rand.NewPCG(seed, 9)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		first := drawn(Draw(seed), inOrder)
		require.Equal(t, first, drawn(Draw(seed), shuffled), "seed %d: the order of things decides nothing", seed)
		if fmt.Sprint(first) != fmt.Sprint(drawn(Draw(seed+1), inOrder)) {
			others++
		}
	}
	require.Greater(t, others, 25, "another seed draws something else")
}

func TestDiceTellThingsApart(t *testing.T) {
	byNumber, byName := map[string]bool{}, map[string]bool{}
	d := Draw(1)
	for i := range 100 {
		byNumber[d.Next("a", all()).String()] = true
		byName[d.Next(fmt.Sprint("b", i), all()).String()] = true
	}
	require.Greater(t, len(byNumber), 10, "each time it may be something else")
	require.Greater(t, len(byName), 10, "for each name it may be something else")
}

func TestDiceNoteWhatIsMet(t *testing.T) {
	d := Draw(5)
	var want []Fault
	for _, one := range things() {
		if f := d.Next(one, all()); f.Outcome != "" {
			want = append(want, f)
		}
	}
	require.NotEmpty(t, want, "the seed has faults")
	require.Equal(t, want, d.Met(), "in the order in which they were met, and nothing else")

	played := Play(d.Met())
	require.Equal(t, drawn(Draw(5), things())[numbered(want[0].Name, want[0].N)], want[0])
	for _, one := range things() {
		played.Next(one, all())
	}
	require.Equal(t, want, played.Met(), "played as a script they are the same, whatever the seed and the kinds")
}

func TestHeal(t *testing.T) {
	d := Play([]Fault{{Name: "a", N: 1, Outcome: "500"}, {Name: "a", N: 2, Outcome: "503"}})
	d.Next("a", all())
	require.False(t, d.Over(), "the faults go on")
	d.Heal()
	require.True(t, d.Over(), "they are over")
	require.Equal(t, Fault{}, d.Next("a", all()), "nothing is met any more")
	require.Equal(t, []Fault{{Name: "a", N: 1, Outcome: "500"}}, d.Met(), "what was met stays noted")

	drawing := Draw(1)
	drawing.Heal()
	for _, one := range things() {
		require.Equal(t, Fault{}, drawing.Next(one, all()), "dice that draw end, too")
	}
}

func TestScriptPlaysItsFaults(t *testing.T) {
	script := []Fault{
		{Name: "a", N: 2, Outcome: "500"},
		{Name: "b", N: 1, Outcome: Late, Delay: time.Second},
		{Name: "c", N: 1, Outcome: "503"}, // never met
	}
	for name, tc := range map[string]struct {
		reason string
		script []Fault
		want   []Fault
	}{
		"Script": {"the N-th of a name meets its fault, and no other", script, []Fault{{}, script[1], script[0], {}, {}}},
		"Empty":  {"a script without faults isn't one that is yet to be drawn", []Fault{}, []Fault{{}, {}, {}, {}, {}}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Play(tc.script)
			var met []Fault
			for _, name := range []string{"a", "b", "a", "a", "b"} {
				met = append(met, d.Next(name, all()))
			}
			require.Equal(t, tc.want, met, tc.reason)
		})
	}
	for _, one := range things() {
		require.Equal(t, Fault{}, Play(nil).Next(one, all()), "a script without faults has none")
	}
}

func TestFaultsSayWhatTheyAre(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		f      Fault
		want   string
	}{
		"None": {"nothing is met", Fault{}, ""},
		"Code": {"the outcome", Fault{Outcome: "503"}, "503"},
		"Late": {"a delay alone", Fault{Outcome: Late, Delay: time.Second}, "1s late"},
		"Both": {"both", Fault{Outcome: "503", Delay: 2 * time.Second}, "503, 2s late"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, tc.f.String(), tc.reason) })
	}
}

func TestLines(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, line string
		want         Fault
	}{
		"Name":  {"a name has words", "on PATCH /apis/a b #2 break-after 40ms", Fault{"PATCH /apis/a b", 2, BreakAfter, 40 * time.Millisecond}},
		"None":  {"without a delay", "on a #1 409 0s", Fault{"a", 1, "409", 0}},
		"Again": {"frames are told again", "on frame a #10 again-3 0s", Fault{"frame a", 10, Again(3), 0}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := ParseLine(strings.Fields(tc.line))
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, f, tc.reason)
			require.Equal(t, tc.line, f.Line())
		})
	}
	for name, line := range map[string]string{
		"NoNumber": "on a 409 0s", "NoName": "on #1 409 0s", "NoDelay": "on a #1 409", "More": "on a #1 409 0s 0s", "NaN": "on a #x 409 0s", "NoTime": "on a #1 409 later", "Other": "at a #1 409 0s",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseLine(strings.Fields(line))
			require.ErrorContains(t, err, "fault: ")
		})
	}
}

func TestOdds(t *testing.T) {
	count := func(odds Odds) (outcomes map[string]int, longest time.Duration) {
		outcomes = map[string]int{}
		d := Draw(7)
		for i := range 10_000 {
			f := d.Next(fmt.Sprint("thing ", i), odds)
			outcomes[f.Outcome]++
			longest = max(longest, f.Delay)
		}
		return outcomes, longest
	}
	none, longest := count(Odds{})
	require.Equal(t, map[string]int{"": 10_000}, none)
	require.Zero(t, longest)
	rates, _ := count(Odds{Rate: 0.2, Outcomes: []string{"a", "a", "b"}})
	require.InDelta(t, 8000, rates[""], 200)
	require.InDelta(t, 1333, rates["a"], 150, "what is there twice is likelier")
	require.InDelta(t, 667, rates["b"], 100)
	kills, _ := count(Odds{Kill: 0.1})
	require.InDelta(t, 500, kills[KillBefore], 100)
	require.InDelta(t, 500, kills[KillAfter], 100)
	soon, longest := count(Odds{Soon: 0.5})
	require.InDelta(t, 5000, soon[Late], 200)
	require.Less(t, longest, 100*time.Millisecond)
	slow, longest := count(Odds{Slow: 0.1})
	require.InDelta(t, 1000, slow[Late], 100)
	require.Greater(t, longest, 15*time.Second)
	_, faster := count(Odds{Slow: 0.1, Faster: 10})
	require.Equal(t, longest/10, faster)
}
