package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/definitions"
)

// An owned is the definitions that belong to one operator, but for those that an operator
// before it has as well.
type owned struct {
	*operator
	definitions []*crd.Definition
}

// owned returns the definitions of all operators. An error names one of which two operators
// have different ones.
func (m *Manager) owned() ([]owned, error) {
	var out []owned
	var errs []error
	first := map[string]*crd.Definition{}
	for _, o := range m.operators {
		mine, err := o.parseCRDs()
		if err != nil {
			return nil, err
		}
		each := owned{operator: o}
		for _, d := range mine {
			switch before := first[d.Name]; {
			case before == nil:
				first[d.Name] = d
				each.definitions = append(each.definitions, d)
			case before.Digest() != d.Digest():
				errs = append(errs, fmt.Errorf("config.Operator: CRDs: CustomResourceDefinition %s: that of the operator %s differs from that of another operator of the program; use one", d.Name, o.cfg.Name))
			}
		}
		if len(each.definitions) > 0 {
			out = append(out, each)
		}
	}
	return out, errors.Join(errs...)
}

// parseCRDs returns the operator's definitions.
func (o *operator) parseCRDs() ([]*crd.Definition, error) {
	var out []*crd.Definition
	for i, text := range o.cfg.CRDs {
		parsed, err := crd.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("config.Operator: CRDs[%d]: %w", i, err)
		}
		out = append(out, parsed...)
	}
	return out, nil
}

// installCRDs installs the definitions of all operators, if the options ask for it. It
// needs no lease: what is watched must be served before there is one.
func (m *Manager) installCRDs(ctx context.Context, l *client.Link) error {
	if !m.opts.InstallCRDs {
		return nil
	}
	all, err := m.owned()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("runner: CRDs are to be installed, and config.Operator.CRDs has none; set it, or run without --install-crds")
	}
	for _, each := range all {
		room, err := definitions.New(l, each.cfg.Name, each.cfg.Domain, each.log)
		if err != nil {
			return err
		}
		if err := room.Install(ctx, each.definitions, definitions.Options{AllowNarrowed: m.opts.AllowNarrowedCRDs, DryRun: each.cfg.DryRun}); err != nil {
			return err
		}
	}
	return nil
}

// MigrateStorage has every object of the operators' definitions stored in the storage
// version: see definitions.Room.Migrate.
func (m *Manager) MigrateStorage(ctx context.Context, dryRun bool, say func(text string)) error {
	l, err := client.Connect(m.opts.RESTConfig, m.log)
	if err != nil {
		return err
	}
	all, err := m.owned()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("config.Operator: CRDs: there are none; set those whose objects are to be migrated")
	}
	var errs []error
	for _, each := range all {
		room, err := definitions.New(l, each.cfg.Name, each.cfg.Domain, each.log)
		if err != nil {
			return err
		}
		errs = append(errs, room.Migrate(ctx, each.definitions, dryRun, say))
	}
	return errors.Join(errs...)
}

// doubtStatus says what the operator's definitions lack for the status of parents, "" if
// nothing, or if the parents' isn't among them.
func (o *operator) doubtStatus() string {
	all, err := o.parseCRDs()
	if err != nil {
		return "" // Validate has refused it
	}
	gvk := o.cfg.Parent.GroupVersionKind()
	for _, d := range all {
		if d.Group == gvk.Group && d.Kind == gvk.Kind {
			return crd.StatusDoubt(d, gvk.Version)
		}
	}
	return ""
}
