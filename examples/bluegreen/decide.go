package main

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A colour is one of two places for a version of the app.
type colour string

const (
	blue  colour = "blue"
	green colour = "green"
)

func colours() []colour { return []colour{blue, green} }

// other returns the other colour.
func (c colour) other() colour {
	if c == blue {
		return green
	}
	return blue
}

// A side is what a colour's Deployment is like. The zero side has none.
type side struct {
	image    string // "": there is no Deployment
	replicas int32
	state    readiness.State
	message  string // what State is about
}

// observed is what the live children tell.
type observed struct {
	points colour // where the Service points to; "": there is none
	sides  map[colour]side
}

func (b *BlueGreen) observe(children handler.Children) (observed, error) {
	live := observed{sides: map[colour]side{}}
	for _, c := range colours() {
		child, exists := children.OfType(k8s.Deployment).Get(b.Namespace, b.name(c))
		if !exists {
			continue
		}
		deployment, err := resource.As[appsv1.Deployment](child)
		if err != nil {
			return live, err
		}
		is := readiness.Of(child)
		live.sides[c] = side{imageOf(deployment), *cmp.Or(deployment.Spec.Replicas, new(int32)), is.State, is.Message}
	}
	if service, exists := children.OfType(k8s.Service).Get(b.Namespace, b.Name); exists {
		points, _ := service.Field("spec", "selector", colourLabel)
		text, _ := points.(string)
		live.points = colour(text)
	}
	return live, nil
}

// active returns the colour that counts as the one that serves: where the
// Service points to. Where it points to nothing, because it is new or somebody
// has edited it, a Deployment that is ready does, or else one that is there.
func (o observed) active() colour {
	if o.sides[o.points].image != "" {
		return o.points
	}
	for _, c := range colours() {
		if o.sides[c].state == readiness.Current {
			return c
		}
	}
	if o.sides[blue].image == "" && o.sides[green].image != "" {
		return green
	}
	return blue
}

// A decision is what shall be next.
type decision struct {
	serves colour            // where the Service shall point to
	images map[colour]string // what each colour shall run; a colour without an image goes
}

// decide returns what shall be next. README.md has it as a table.
func (b *BlueGreen) decide(live observed) decision {
	goal, active := b.Spec.Image, live.active()
	other := active.other()
	runs := cmp.Or(live.sides[active].image, goal)
	next := decision{serves: active, images: map[colour]string{active: runs}}
	switch {
	case runs != goal:
		next.images[other] = goal
		if b.isDone(live.sides[other]) {
			next.serves = other
		}
	case !b.isDone(live.sides[active]) && live.sides[other].image != "":
		next.images[other] = live.sides[other].image
	}
	return next
}

// isDone says that a side runs what the spec asks for, and that all of it is ready.
func (b *BlueGreen) isDone(s side) bool {
	return s.image == b.Spec.Image && s.replicas == b.Spec.Replicas && s.state == readiness.Current
}
