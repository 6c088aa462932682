package conflict

const (
	firstReport = 5  // restores of a field after which a fight is first reported
	maxFights   = 16 // that are remembered of one parent
)

// A fight is a field that is restored to the same value at any pace.
type fight struct {
	path, value string
	restores    int
	report      int // with which restore it is next reported
}

// restored counts the restore of the first field of a write.
func (p *parent) restored(w *Write) *Loop {
	if len(w.Fields) == 0 {
		return nil
	}
	field, f := w.Fields[0], p.fights[w.Key]
	if f == nil && len(p.fights) == maxFights {
		return nil
	}
	if f == nil || f.path != field.Path || f.value != field.To {
		f = &fight{path: field.Path, value: field.To, report: firstReport}
		p.fights[w.Key] = f
	}
	if f.restores++; f.restores < f.report {
		return nil
	}
	f.report *= 2
	return &Loop{Key: w.Key, Path: field.Path, Values: []string{field.From, field.To}, Writes: f.restores}
}
