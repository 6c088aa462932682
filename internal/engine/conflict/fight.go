package conflict

import "slices"

const (
	firstReport = 5  // restores of a field after which a fight is first reported
	maxFights   = 16 // that are remembered of one parent
)

// A fight is a field that is restored to the same value at any pace.
type fight struct {
	key         Key
	path, value string
	restores    int
	report      int // with which restore it is next reported
}

// restored counts the restore of the first field of a write.
func (p *parent) restored(w *Write) *Loop {
	if len(w.Fields) == 0 {
		return nil
	}
	field := w.Fields[0]
	i := slices.IndexFunc(p.fights, func(f *fight) bool { return f.key == w.Key })
	switch {
	case i < 0 && len(p.fights) == maxFights:
		return nil
	case i < 0:
		i, p.fights = len(p.fights), append(p.fights, &fight{key: w.Key})
	}
	f := p.fights[i]
	if f.path != field.Path || f.value != field.To {
		*f = fight{key: w.Key, path: field.Path, value: field.To, report: firstReport}
	}
	if f.restores++; f.restores < f.report {
		return nil
	}
	f.report *= 2
	return &Loop{Key: w.Key, Path: field.Path, Values: []string{field.From, field.To}, Writes: f.restores}
}
