package manager

import "net/http"

// Readyz answers as /readyz does, without a listener.
func (m *Manager) Readyz(w http.ResponseWriter, req *http.Request) { m.readyz(w, req) }
