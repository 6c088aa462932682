package main

import (
	"cmp"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// An AppStackStatus is the status of an AppStack. The engine completes the
// conditions, and adds observedGeneration and the condition Ready.
type AppStackStatus struct {
	Image           string             `json:"image,omitempty"`           // that the app runs
	DatabaseAddress string             `json:"databaseAddress,omitempty"` // that the Service has
	Conditions      []metav1.Condition `json:"conditions"`
}

// observed is what the live children tell.
type observed struct {
	database, migration, app *resource.Resource   // nil: it isn't there
	address                  string               // "": the database's Service has none
	image, toldAddress       string               // what the app has; "": there is no app
	migrated                 bool                 // the migration for the wanted image is complete
	updated                  bool                 // the app has the wanted image
	unfinished               []*resource.Resource // other migrations, which have neither succeeded nor failed
}

func (a *AppStack) observe(live handler.Children) (observed, error) {
	database, _ := live.Find(a.database())
	service, _, err1 := find[corev1.Service](live, a.service())
	job, migration, err2 := find[batchv1.Job](live, a.migration())
	deployment, app, err3 := find[appsv1.Deployment](live, a.deployment("", ""))
	others, err4 := unfinished(live, a.migration().Name)
	image, address := contentOf(deployment.Spec.Template)
	migrates, _ := contentOf(job.Spec.Template)
	return observed{
		database: database, migration: migration, app: app,
		address: addressOf(service),
		image:   image, toldAddress: address,
		migrated:   migrates == a.image() && has(job, batchv1.JobComplete),
		updated:    image == a.image(),
		unfinished: others,
	}, errors.Join(err1, err2, err3, err4)
}

// find returns the live child with the type and name of obj, decoded and as it
// is; zeros if it isn't there.
func find[T any](live handler.Children, obj any) (typed T, child *resource.Resource, err error) {
	child, exists := live.Find(obj)
	if exists {
		typed, err = resource.As[T](child)
	}
	return typed, child, err
}

// unfinished returns the Jobs that have neither succeeded nor failed, but for
// the one with this name.
func unfinished(live handler.Children, but string) (out []*resource.Resource, err error) {
	for child := range live.OfType(k8s.Job).All() {
		job, err := resource.As[batchv1.Job](child)
		if err != nil {
			return nil, err
		}
		if job.Name != but && !has(job, batchv1.JobComplete) && !has(job, batchv1.JobFailed) {
			out = append(out, child)
		}
	}
	return out, nil
}

// addressOf returns at which address a Service is reached from outside the
// cluster, "" if it has none.
func addressOf(service corev1.Service) string {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		return cmp.Or(ingress.IP, ingress.Hostname)
	}
	return ""
}

// contentOf returns the image and the database's address that a template has.
// A webhook may have put other containers beside the app.
func contentOf(pod corev1.PodTemplateSpec) (image, address string) {
	for _, c := range pod.Spec.Containers {
		if c.Name != appContainer {
			continue
		}
		image = c.Image
		for _, v := range c.Env {
			if v.Name == addressVariable {
				address = v.Value
			}
		}
	}
	return image, address
}

// has says whether a condition of a Job is True.
func has(job batchv1.Job, condition batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}

// status says what has been observed, with a condition for each step.
func (o observed) status() AppStackStatus {
	return AppStackStatus{
		Image:           o.image,
		DatabaseAddress: o.address,
		Conditions: withReady([]metav1.Condition{
			condition("DatabaseReady", o.database, true),
			condition("Migrated", o.migration, o.migrated),
			condition("AppReady", o.app, o.updated),
		}),
	}
}

// withReady adds that an AppStack isn't Ready before each step is done. The
// engine's own Ready is about the children as they shall be by now: it can't tell
// that they are to change when the migration is complete.
func withReady(steps []metav1.Condition) []metav1.Condition {
	for _, step := range steps {
		if step.Status != metav1.ConditionTrue {
			return append(steps, metav1.Condition{
				Type: "Ready", Status: metav1.ConditionFalse, Reason: step.Reason, Message: step.Type + ": " + step.Message,
			})
		}
	}
	return steps
}

// condition is True if a child is Current and what else has to be so is so. A
// Job is Current while it runs, an app with the former image is too.
func condition(name string, child *resource.Resource, so bool) metav1.Condition {
	c := metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: "NotCreated", Message: "not there yet"}
	if child == nil {
		return c
	}
	is := readiness.Of(child)
	c.Reason, c.Message = string(is.State), is.Message
	switch {
	case is.State == readiness.Current && so:
		c.Status = metav1.ConditionTrue
	case is.State == readiness.Current:
		c.Reason = string(readiness.InProgress)
	}
	return c
}
