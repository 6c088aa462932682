package definitions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

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
	// settles is how long after a definition was written an API server may still store as it
	// said before. Kubernetes itself gives several API servers this time to notice.
	settles = 5 * time.Second
)

// Migrate rewrites every object of each definition that is installed under the names of
// wanted, and then has status.storedVersions name the storage version alone. It calls say
// with lines about its progress. An object that can't be rewritten is an error, and leaves
// storedVersions as they are. If the definition changes meanwhile, for example to another
// storage version and back, the objects are rewritten once more. A migration that was cut
// short is begun again by the next call: what is rewritten already is sent again, and not
// stored. Several may run at once.
func (r *Room) Migrate(ctx context.Context, wanted []*crd.Definition, dryRun bool, say func(text string)) error {
	var errs []error
	for _, d := range wanted {
		if err := r.migrate(ctx, d, dryRun, say); err != nil {
			errs = append(errs, fmt.Errorf("CustomResourceDefinition %s: migrate-storage: %w", d.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Room) migrate(ctx context.Context, wanted *crd.Definition, dryRun bool, say func(string)) error {
	name := wanted.Name
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
		if mine := wanted.Storage().Name; mine != storage {
			say(fmt.Sprintf("%s: this build's definition stores in %s, and isn't what is installed; to migrate to %[2]s, install it first", name, mine))
		}
		return nil
	}
	if dryRun {
		say(fmt.Sprintf("%s: objects may be stored in %s; each would be rewritten in %s", name, strings.Join(live.stored(), ", "), storage))
		return nil
	}
	done, err := r.migrateTo(ctx, live, say)
	if err != nil {
		return err
	}
	say(fmt.Sprintf("%s: %d objects are stored in %s; status.storedVersions is [%s]", name, done, storage, storage))
	return nil
}

// migrateTo rewrites the objects of a definition, which hasn't changed since it was read
// when the last one is rewritten, and then drops the other versions. It returns the number
// of objects.
func (r *Room) migrateTo(ctx context.Context, live *installed, say func(string)) (int, error) {
	if err := r.setStored(ctx, live, live.Storage().Name, true); err != nil && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("status.storedVersions: %w; no object was rewritten", err) // it would fail in the end
	}
	for range tries {
		m := &migration{Room: r, live: live, say: say}
		err := m.settle(ctx)
		if err == nil {
			err = m.rewriteAll(ctx)
		}
		if err != nil {
			return 0, fmt.Errorf("%w; status.storedVersions is left as it is: run migrate-storage again", err)
		}
		now, err := r.dropStored(ctx, live)
		if err != nil || now == nil {
			return m.done, err
		}
		say(fmt.Sprintf("%s: the definition has changed meanwhile; the objects are rewritten once more", live.Name))
		live = now
	}
	return 0, errors.New("the definition changes all the time; see who else writes it, and run migrate-storage again")
}

// A migration rewrites the objects of a definition.
type migration struct {
	*Room
	live *installed
	say  func(string)
	done int
}

// settle waits until every API server has noticed the definition.
func (m *migration) settle(ctx context.Context) error {
	left := min(settles-time.Since(m.live.written()), settles)
	if left <= 0 {
		return nil
	}
	m.say(fmt.Sprintf("%s: the definition was written a moment ago; waiting until each API server stores in %s", m.live.Name, m.live.Storage().Name))
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(left):
		return nil
	}
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
			opts.Limit, opts.Continue, m.done, failures = 0, "", 0, nil // the pages have expired: all at once
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

// dropStored sets storedVersions to the storage version. It doesn't if the definition has
// changed since it was read, before the objects were rewritten: an object that was written
// meanwhile may be stored in another version. It returns the definition as it is now then.
func (r *Room) dropStored(ctx context.Context, before *installed) (changed *installed, err error) {
	storage := before.Storage().Name
	for range tries {
		now, err := r.get(ctx, before.Name)
		switch {
		case err != nil:
			return nil, err
		case now == nil || now.metadata()["uid"] != before.metadata()["uid"]:
			return nil, errors.New("somebody has deleted it meanwhile")
		case now.Storage().Name != storage:
			return nil, fmt.Errorf("the storage version was %s and is %s now; status.storedVersions is left as it is: run migrate-storage again", storage, now.Storage().Name)
		case now.metadata()["generation"] != before.metadata()["generation"]:
			return now, nil
		}
		if err := r.setStored(ctx, now, storage, false); !apierrors.IsConflict(err) {
			return nil, err
		}
	}
	return nil, errors.New("it changes all the time; run migrate-storage again")
}

// setStored sets storedVersions to one version, unless the definition has changed since it
// was read.
func (r *Room) setStored(ctx context.Context, live *installed, version string, dryRun bool) error {
	status := map[string]any{}
	maps.Copy(status, live.status())
	status["storedVersions"] = []any{version}
	wanted := map[string]any{}
	maps.Copy(wanted, live.object)
	wanted["status"] = status
	body, err := jsonvalue.Append(nil, wanted)
	if err != nil {
		return err
	}
	req := r.request(http.MethodPut, live.Name).SubResource("status").Param("fieldManager", r.manager)
	if dryRun {
		req = req.Param("dryRun", "All")
	}
	_, err = object(ctx, req.Body(body))
	return err
}
