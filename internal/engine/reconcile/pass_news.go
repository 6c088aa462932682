package reconcile

import (
	"slices"
	"sync"

	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/object"
)

// A passNews is what few passes have to tell of: a pass makes one when it has something to
// put into it.
type passNews struct {
	mu struct { // the API server's warnings come with concurrent answers
		sync.Mutex
		names map[string][]string // the text of a warning -> names of the objects
		order []string            // the texts
	}
}

// makeNews returns the news of the pass, which are made if there are none.
func (p *pass) makeNews() *passNews {
	if news := p.news.Load(); news != nil {
		return news
	}
	p.news.CompareAndSwap(nil, &passNews{})
	return p.news.Load()
}

// Warned notes a warning of the API server about an object, for an Event of the pass.
func (p *pass) Warned(about object.Ref, text string) {
	news := p.makeNews()
	news.mu.Lock()
	defer news.mu.Unlock()
	if news.mu.names == nil {
		news.mu.names = map[string][]string{}
	}
	if news.mu.names[text] == nil {
		news.mu.order = append(news.mu.order, text)
	}
	news.mu.names[text] = append(news.mu.names[text], p.nameOf(about))
}

// emitWarnings records what the API server has warned of: one Event for each text, which
// names the objects.
func (p *pass) emitWarnings() {
	news := p.news.Load()
	if news == nil {
		return
	}
	news.mu.Lock()
	defer news.mu.Unlock()
	for _, text := range news.mu.order {
		names := news.mu.names[text]
		slices.Sort(names)
		text = observe.Shorten(text, observe.MaxEventNote/2)
		p.event(p.parent, observe.Warning, observe.ReasonAPIWarning, "the API server warned: "+text+": "+joinNamesIn(names, observe.MaxEventNote-len(text)-100))
	}
}
