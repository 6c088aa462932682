package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/reconcile"
)

// maxReason bounds, in bytes, what an error quotes of an authorizer's reason.
const maxReason = 300

// checkRights looks at the rights that the operators and the election need, all at once,
// also for a replica that will only wait for the lease. If one is missing that is
// required, the error names all that are missing; otherwise a warning in the log does.
// A right that can't be looked at is taken for granted: the refusal of a request will
// tell. l must not need the lease. election are the rights that the election needs.
func (m *Manager) checkRights(ctx context.Context, l *client.Link, engines []*reconcile.Engine, election []catalog.Right) error {
	denied, err := client.Review(ctx, l, l.As(m.operators[0].cfg.Name, nil), m.rights(engines, election))
	if ctx.Err() != nil {
		return nil //nolint:nilerr // told to stop
	}
	if err != nil {
		m.log.InfoContext(ctx, "can't look at all rights before the start; a missing one is named when a request is refused", "error", err)
	}
	if len(denied) == 0 {
		return nil
	}
	lacks := lacksOf(denied)
	if slices.ContainsFunc(lacks, func(l *lack) bool { return l.required }) {
		return joinLacks(lacks)
	}
	m.log.WarnContext(ctx, "RBAC doesn't allow all that may be needed; what needs it will be refused", "error", joinLacks(lacks))
	return nil
}

// rights returns the rights that the operators and the election need, each once.
func (m *Manager) rights(engines []*reconcile.Engine, election []catalog.Right) []catalog.Right {
	var rights []catalog.Right
	known := map[catalog.Right]bool{}
	add := func(more []catalog.Right) {
		for _, r := range more {
			if !known[r] {
				known[r] = true
				rights = append(rights, r)
			}
		}
	}
	for _, e := range engines {
		add(e.Rights())
	}
	add(election)
	if m.securesMetrics() {
		add(catalog.ReviewRights())
	}
	return rights
}

// A lack is a rule that is missing, for one resource.
type lack struct {
	catalog.Right          // of the first verb, in the first namespace
	verbs         []string // at least one
	namespaces    []string // at least one; the empty name stands for all
	required      bool     // one of the verbs is required
	reason        string   // of the first denial that has one
}

// lacksOf returns the rules that are missing. Those with a required verb come first,
// and namespaces in which the same verbs are missing are together.
func lacksOf(denied []client.Denial) []*lack {
	var lacks []*lack
	for _, d := range denied {
		i := slices.IndexFunc(lacks, func(l *lack) bool { return l.about(d.Right) && l.Namespace == d.Namespace })
		if i < 0 {
			i, lacks = len(lacks), append(lacks, &lack{Right: d.Right, namespaces: []string{d.Namespace}})
		}
		lacks[i].add(d)
	}
	var merged []*lack
	for _, l := range lacks {
		i := slices.IndexFunc(merged, func(m *lack) bool { return m.about(l.Right) && slices.Equal(m.verbs, l.verbs) })
		if i < 0 {
			merged = append(merged, l)
		} else {
			merged[i].namespaces = append(merged[i].namespaces, l.Namespace)
		}
	}
	slices.SortStableFunc(merged, func(a, b *lack) int {
		switch {
		case a.required == b.required:
			return 0
		case a.required:
			return -1
		}
		return 1
	})
	return merged
}

// about says whether a right is about the same resource.
func (l *lack) about(r catalog.Right) bool { return l.Group == r.Group && l.Resource == r.Resource }

// add adds a denial for the same resource and namespace.
func (l *lack) add(d client.Denial) {
	if !slices.Contains(l.verbs, d.Verb) {
		l.verbs = append(l.verbs, d.Verb)
	}
	l.required = l.required || d.Required
	if l.reason == "" {
		l.reason = d.Reason
	}
}

// joinLacks returns an error with a line for each of the missing rules.
func joinLacks(lacks []*lack) error {
	errs := make([]error, 0, len(lacks))
	for _, l := range lacks {
		errs = append(errs, errors.New(l.String()))
	}
	return errors.Join(errs...)
}

// String names the resource, the verbs that are missing, and the rule to add.
func (l *lack) String() string {
	resource, sub, _ := strings.Cut(l.Resource, "/")
	if l.Group != "" {
		resource += "." + l.Group
	}
	if sub != "" {
		resource += "/" + sub
	}
	are := "are"
	if len(l.verbs) == 1 {
		are = "is"
	}
	text := fmt.Sprintf("%s: %s %s forbidden%s", resource, strings.Join(l.verbs, ", "), are, l.where())
	if l.reason != "" {
		text += " (" + observe.Shorten(l.reason, maxReason) + ")"
	}
	if l.Only != "" {
		text += ", which matters only where " + l.Only
	}
	return text + "; add the rule " + apierror.RuleText(l.Group, l.Resource, l.verbs...)
}

// where says in which namespaces the verbs are missing.
func (l *lack) where() string {
	switch {
	case !l.Namespaced:
		return ""
	case l.Namespace == "":
		return " in all namespaces"
	case len(l.namespaces) == 1:
		return " in the namespace " + l.Namespace
	case len(l.namespaces) > apierror.MaxListed:
		return fmt.Sprintf(" in the namespaces %s and %d more", strings.Join(l.namespaces[:apierror.MaxListed], ", "), len(l.namespaces)-apierror.MaxListed)
	}
	return " in the namespaces " + strings.Join(l.namespaces, ", ")
}
