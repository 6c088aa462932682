package manager

import (
	"net/http"
	"time"

	"github.com/roperator/roperator/internal/engine/client"
)

// Readyz answers as /readyz does, without a listener.
func (m *Manager) Readyz(w http.ResponseWriter, req *http.Request) { m.readyz(w, req) }

// Window returns the window, without a listener. The manager must have KeepJournal.
func (m *Manager) Window() (*Window, error) {
	l, err := client.Connect(m.opts.RESTConfig, m.log)
	if err != nil {
		return nil, err
	}
	return m.newWindow(l), nil
}

// ExplainTimeout is how long one look at one parent may take.
const ExplainTimeout time.Duration = explainTimeout

// MaxRehearsals is how many rehearsals may be under way at once.
const MaxRehearsals = maxRehearsals
