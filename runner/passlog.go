package runner

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
)

// A passLog is a pass's logger, made when there is something to say.
type passLog struct {
	once sync.Once
	id   string
	log  *slog.Logger
}

// logger returns the logger of the pass, which tells the pass and its parent in
// each line. It is safe for concurrent use.
func (p *pass) logger() *slog.Logger {
	p.lines.once.Do(func() {
		p.lines.id = fmt.Sprintf("%08x", rand.Uint32())
		p.lines.log = p.log.With("syncID", p.lines.id, "namespace", p.req.Parent.Namespace(), "name", p.req.Parent.Name())
	})
	return p.lines.log
}

// id tells the pass in its lines and its span.
func (p *pass) id() string {
	p.logger()
	return p.lines.id
}
