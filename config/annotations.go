package config

import "cmp"

// PausedAnnotation returns the key of the annotation on a parent that stops Sync for
// it while its value is "true": "<Domain>/paused". The parent's deletion still finalizes.
func (o *Operator) PausedAnnotation() string { return o.domain() + "/paused" }

// AppliedAnnotation returns the key of the annotation on children in which the engine
// keeps what it has set, "<Domain>/applied". Its value is the engine's own, and changes
// between builds.
func (o *Operator) AppliedAnnotation() string { return o.domain() + "/applied" }

// BucketLabel returns the key of the label on children that says of which bucket of parents
// their parent is, "<Domain>/bucket". Its value is a number from 0 to 63. Children have it
// only where replicas share the parents: see runner.Options.Sharding.
func (o *Operator) BucketLabel() string { return o.domain() + "/bucket" }

// AdoptAnnotation returns the key of the annotation or label by which an object is
// offered to the operator that its value names, "<Domain>/adopt": see
// Child.AdoptOffered.
func (o *Operator) AdoptAnnotation() string { return o.domain() + "/adopt" }

// domain returns the Domain with its default.
func (o *Operator) domain() string { return cmp.Or(o.Domain, DefaultDomain) }
