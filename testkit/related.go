package testkit

import (
	"fmt"
	"slices"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/resource"
)

// relatedObjects is what Related returns.
type relatedObjects []any

// Related returns objects for [Sync] and [Request] that exist beside the parent and its children: of them
// Sync shows the handler those that the parent refers to, by config.Related and by what it
// returns for handler.Relater. They are whatever could be returned as a child. What an API
// server would have set is filled in where it is missing; an object of a namespaced type
// that names no namespace is in the parent's.
func Related(objects ...any) any { return relatedObjects(objects) }

func (o *offline) observedRelated(cfg config.Operator, objects relatedObjects) ([]*resource.Resource, error) {
	out := make([]*resource.Resource, 0, len(objects))
	for i, of := range objects {
		object, err := encode.Map(of)
		if err != nil {
			return nil, fmt.Errorf("related object %d: %w", i, err)
		}
		t := typeOf(object)
		if !slices.ContainsFunc(cfg.Related, func(r config.Related) bool { return r.Type == t }) {
			return nil, fmt.Errorf("related object %d: %s isn't one of the operator's related types", i, t)
		}
		o.fill(object, t, o.parent.Namespace())
		res, err := resource.New(object)
		if err != nil {
			return nil, fmt.Errorf("related object %d: %w", i, err)
		}
		out = append(out, res)
	}
	return out, nil
}
