package definitions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/internal/jsonvalue"
)

const (
	// page is how many objects are listed at once.
	page = 250
	// metadataList asks for a list of metadata alone.
	metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	// maxFailures is how many objects an error names.
	maxFailures = 10
)

// Migrate rewrites every object of each definition that is installed under the names of
// wanted, and then has status.storedVersions name the storage version alone. It calls say
// with lines about its progress. An object that can't be rewritten is an error, and leaves
// storedVersions as they are. A migration that was cut short is begun again by the next
// call: what is rewritten already is sent again, and not stored.
func (r *Room) Migrate(ctx context.Context, wanted []*crd.Definition, dryRun bool, say func(text string)) error {
	var errs []error
	for _, d := range wanted {
		if err := r.migrate(ctx, d.Name, dryRun, say); err != nil {
			errs = append(errs, fmt.Errorf("CustomResourceDefinition %s: migrate-storage: %w", d.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Room) migrate(ctx context.Context, name string, dryRun bool, say func(string)) error {
	live, err := r.get(ctx, name)
	switch {
	case err != nil:
		return err
	case live == nil:
		return errors.New("not installed; there is nothing to migrate")
	}
	storage := live.Storage().Name
	if slices.Equal(live.stored(), []string{storage}) {
		say(fmt.Sprintf("%s: every object is stored in %s; nothing to do", name, storage))
		return nil
	}
	if dryRun {
		say(fmt.Sprintf("%s: objects may be stored in %s; each would be rewritten in %s", name, strings.Join(live.stored(), ", "), storage))
		return nil
	}
	m := &migration{Room: r, live: live, say: say}
	if err := m.rewriteAll(ctx); err != nil {
		return fmt.Errorf("%w; status.storedVersions is left as it is: run migrate-storage again", err)
	}
	if err := r.dropStored(ctx, live); err != nil {
		return err
	}
	say(fmt.Sprintf("%s: %d objects are stored in %s; status.storedVersions is [%s]", name, m.done, storage, storage))
	return nil
}

// A migration rewrites the objects of a definition.
type migration struct {
	*Room
	live *installed
	say  func(string)
	done int
}

// rewriteAll rewrites the objects page by page. Objects that are created meanwhile are
// stored in the storage version.
func (m *migration) rewriteAll(ctx context.Context) error {
	version := m.servedVersion()
	if version == "" {
		return errors.New("no version is served; serve one")
	}
	opts := metav1.ListOptions{Limit: page}
	var failures []error
	for {
		var list metav1.PartialObjectMetadataList
		res := m.objects(http.MethodGet, version, "").SetHeader("Accept", metadataList).
			SpecificallyVersionedParams(&opts, metav1.ParameterCodec, metav1.SchemeGroupVersion).Do(ctx)
		err := res.Error()
		switch {
		case apierrors.IsResourceExpired(err) && opts.Continue != "":
			opts.Limit, opts.Continue, m.done = 0, "", 0 // the pages have expired: all at once
			continue
		case err != nil:
			return fmt.Errorf("list: %w", err)
		}
		if err := decode(res, &list); err != nil {
			return err
		}
		for i := range list.Items {
			if err := m.rewrite(ctx, version, &list.Items[i]); err != nil {
				failures = append(failures, err)
			} else {
				m.done++
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%d objects are rewritten: %w", m.done, context.Cause(ctx))
			}
			if len(failures) >= maxFailures {
				return errors.Join(failures...)
			}
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return errors.Join(failures...)
		}
		m.say(fmt.Sprintf("%s: %d objects rewritten", m.live.Name, m.done))
	}
}

// servedVersion returns the version to ask for: the storage version if it is served.
func (m *migration) servedVersion() string {
	if m.live.Storage().Served {
		return m.live.Storage().Name
	}
	for _, v := range m.live.Versions {
		if v.Served {
			return v.Name
		}
	}
	return ""
}

// objects begins a request about objects of the definition.
func (m *migration) objects(verb, version, namespace string) *rest.Request {
	req := m.rest.Verb(verb).AbsPath("/apis/" + m.live.Group + "/" + version).Resource(m.live.Plural)
	if namespace != "" {
		req = req.Namespace(namespace)
	}
	return req
}

// rewrite has the API server store an object anew, by a patch that changes nothing. The
// API server notices that the stored form differs. It makes the patch again itself if the
// object changes at the same time.
func (m *migration) rewrite(ctx context.Context, version string, o *metav1.PartialObjectMetadata) error {
	err := m.objects(http.MethodPatch, version, o.Namespace).Name(o.Name).SetHeader("Accept", metadataOnly).
		SetHeader("Content-Type", string(types.MergePatchType)).Param("fieldManager", m.manager).Body([]byte("{}")).Do(ctx).Error()
	if err == nil || apierrors.IsNotFound(err) {
		return nil // rewritten, or gone
	}
	return fmt.Errorf("%s %s: %w", m.live.Kind, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), err)
}

// dropStored sets storedVersions to the storage version, unless the definition stores in
// another one than it did when the objects were rewritten.
func (r *Room) dropStored(ctx context.Context, before *installed) error {
	storage := before.Storage().Name
	for range tries {
		now, err := r.get(ctx, before.Name)
		switch {
		case err != nil:
			return err
		case now == nil || now.metadata()["uid"] != before.metadata()["uid"]:
			return errors.New("somebody has deleted it meanwhile")
		case now.Storage().Name != storage:
			return fmt.Errorf("the storage version was %s and is %s now; run migrate-storage again", storage, now.Storage().Name)
		}
		status := map[string]any{}
		maps.Copy(status, now.status())
		status["storedVersions"] = []any{storage}
		now.object["status"] = status
		body, err := jsonvalue.Append(nil, now.object)
		if err != nil {
			return err
		}
		_, err = object(ctx, r.request(http.MethodPut, before.Name).SubResource("status").Param("fieldManager", r.manager).Body(body))
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return errors.New("it changes all the time; run migrate-storage again")
}
