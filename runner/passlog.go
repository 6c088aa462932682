package runner

import (
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"sync"
)

// A passLog is how a pass is told from others, made when there is something to
// say.
type passLog struct {
	once sync.Once
	id   string
}

// logger returns the logger of the pass, which tells the pass and its parent in
// each line.
func (p *pass) logger() *slog.Logger { return p.log.With(p.identity(0)...) }

// identity returns what every line of the pass tells, with room for more.
func (p *pass) identity(room int) []any {
	return append(make([]any, 0, 6+room), "syncID", p.id(), "namespace", p.req.Parent.Namespace(), "name", p.req.Parent.Name())
}

// id tells the pass in its lines and its span. It is safe for concurrent use.
func (p *pass) id() string {
	p.lines.once.Do(func() {
		p.lines.id = hex.EncodeToString(binary.BigEndian.AppendUint32(nil, rand.Uint32()))
	})
	return p.lines.id
}
