package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/explain"
)

// A readOnly holds no lease, so that a link under it lets no write through, not even a dry run.
type readOnly struct{}

func (readOnly) Held() bool { return false }

// Explain reads a parent of the first operator, and says why the parent and its children are as they
// are: see reconcile.Engine. The operator's configuration must have DryRun set. No request but reads
// is made.
func (m *Manager) Explain(ctx context.Context, parent types.NamespacedName, known explain.Process) (explain.Explanation, error) {
	l, err := client.Connect(m.opts.RESTConfig, m.log)
	if err != nil {
		return explain.Explanation{}, err
	}
	e, err := m.operators[0].connect(ctx, l.Under(readOnly{}))
	defer m.operators[0].unregister()
	switch {
	case err != nil:
		return explain.Explanation{}, err
	case e == nil:
		return explain.Explanation{}, fmt.Errorf("explain: %w", context.Cause(ctx))
	}
	defer e.Close()
	return e.Explain(ctx, parent, known)
}

// explainPage answers with what this process knows of one parent, as the JSON of explain.Process. The
// parent is that of the query: namespace (empty: it is cluster-scoped) and name, and operator, which may be left
// out if the process has one alone.
func (m *Manager) explainPage(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	o, err := m.operatorNamed(query.Get("operator"))
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case query.Get("name") == "":
		http.Error(w, "name: missing; write ?namespace=NAMESPACE&name=NAME", http.StatusBadRequest)
		return
	}
	known, parent := explain.Process{}, types.NamespacedName{Namespace: query.Get("namespace"), Name: query.Get("name")}
	if e := m.engineOf(o, parent); e != nil {
		known = e.Known(parent)
	}
	m.sign(&known)
	body, err := json.Marshal(known)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// operatorNamed returns the operator of a name; of an empty one, the only operator.
func (m *Manager) operatorNamed(name string) (*operator, error) {
	if name == "" && len(m.operators) == 1 {
		return m.operators[0], nil
	}
	var names []string
	for _, o := range m.operators {
		if o.cfg.Name == name {
			return o, nil
		}
		names = append(names, o.cfg.Name)
	}
	return nil, fmt.Errorf("operator: there is none of the name %q; there are %s", name, strings.Join(names, ", "))
}

// leads says whether this process works: nobody else holds the lease.
func (m *Manager) leads() bool {
	if m.opts.Elected != nil {
		select {
		case <-m.opts.Elected:
			return true
		default:
			return false
		}
	}
	m.mu.Lock()
	lease, members := m.mu.lease, m.mu.members
	m.mu.Unlock()
	if members != nil {
		return len(members.Held()) > 0
	}
	if lease == nil {
		return m.opts.LeaderElection == nil
	}
	return lease.Held()
}
