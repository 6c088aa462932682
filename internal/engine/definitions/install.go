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

	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/internal/jsonvalue"
)

const (
	// settleWithin bounds the wait until a definition that was written is served.
	settleWithin = time.Minute
	lookEvery    = 100 * time.Millisecond
	// goneWithin bounds the wait for a definition that is being deleted.
	goneWithin = 10 * time.Second
	// namesWithin is how long the API server may take to look at names that were changed.
	namesWithin = 5 * time.Second
	// tries is how often a definition is looked at that changes meanwhile.
	tries = 10
	// maxHistory is how many digests the annotation holds.
	maxHistory = 20
)

// Options say how to install.
type Options struct {
	// AllowNarrowed installs what is refused otherwise, as far as the API server accepts it.
	AllowNarrowed bool
	// DryRun only says what would be installed.
	DryRun bool
}

// Install makes the definitions in the cluster those that are wanted, and waits until they
// are served, at most a minute. Nothing is written if one of them is refused. The errors of
// all of them are joined.
func (r *Room) Install(ctx context.Context, wanted []*crd.Definition, opts Options) error {
	steps := make([]*step, 0, len(wanted))
	var errs []error
	for _, d := range wanted {
		s := &step{Room: r, wanted: d, opts: opts}
		errs = append(errs, s.look(ctx))
		steps = append(steps, s)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, s := range steps {
		errs = append(errs, s.carryOut(ctx))
	}
	return errors.Join(errs...)
}

// A step is the installation of one definition.
type step struct {
	*Room
	wanted *crd.Definition
	opts   Options

	live *installed     // nil: there is none
	body map[string]any // what is to be written; nil: nothing
}

func (s *step) failed(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("CustomResourceDefinition %s: install: %w; manifests prints the rule that --install-crds needs", s.wanted.Name, err)
	}
	return fmt.Errorf("CustomResourceDefinition %s: install: %w", s.wanted.Name, err)
}

// look reads what there is, and decides what to write. The API server has accepted that
// in a dry run.
func (s *step) look(ctx context.Context) error {
	s.body = nil
	if err := s.read(ctx); err != nil {
		return err
	}
	if s.live != nil && (s.live.deleting() || s.settled()) {
		return nil
	}
	body := s.wanted.Object()
	if s.live == nil {
		s.note(body, nil)
		if err := s.create(ctx, body, true); err != nil && !apierrors.IsAlreadyExists(err) {
			return s.failed(err)
		}
		s.body = body
		return nil
	}
	history, err := s.judge(ctx)
	if err != nil {
		return err
	}
	s.note(body, history)
	body["metadata"].(map[string]any)["resourceVersion"] = s.live.metadata()["resourceVersion"] //nolint:forcetypeassert // Object makes it
	would, err := s.applied(ctx, body, true)
	if apierrors.IsConflict(err) && !isManagers(err) {
		s.body = body // it has changed since: to be looked at again
		return nil
	}
	if err != nil {
		return s.failed(err)
	}
	if s.known() && !slices.Contains(s.installs(), s.wanted.Digest()) || !s.same(would) {
		s.body = body
	}
	return nil
}

// read reads the definition. One that is being deleted is waited for, and let be if its
// objects keep it: it may be for this very operator to finalize them.
func (s *step) read(ctx context.Context) (err error) {
	for begin := time.Now(); ; {
		if s.live, err = s.get(ctx, s.wanted.Name); err != nil {
			return s.failed(err)
		}
		if s.live == nil || !s.live.deleting() {
			return nil
		}
		if s.opts.DryRun || time.Since(begin) >= goneWithin {
			s.log.WarnContext(ctx, "the CustomResourceDefinition is being deleted, and isn't installed; it goes when its objects are gone: start the operator once more then", "crd", s.wanted.Name)
			return nil
		}
		select {
		case <-ctx.Done():
			return s.failed(context.Cause(ctx))
		case <-time.After(lookEvery):
		}
	}
}

// settled says whether what is installed is as wanted. What a build leaves out that this
// operator has never seen it may have taken away, which a dry run tells.
func (s *step) settled() bool {
	if !crd.Matches(s.live.Definition, s.wanted) {
		return false
	}
	return !s.known() || slices.Contains(s.installs(), s.wanted.Digest())
}

// known says whether a build of this operator has installed the definition before.
func (s *step) known() bool { return len(s.installs()) > 0 }

// installs returns the digests of what builds have installed, in their order.
func (s *step) installs() []string { return strings.Fields(s.live.annotation(s.history)) }

// same says whether an apply would change nothing but the history.
func (s *step) same(would map[string]any) bool {
	told := func(object map[string]any, name string) map[string]any {
		metadata, _ := object["metadata"].(map[string]any)
		out := map[string]any{}
		given, _ := metadata[name].(map[string]any)
		for key, value := range given {
			if key != s.history {
				out[key] = value
			}
		}
		return out
	}
	return jsonvalue.Equal(would["spec"], s.live.object["spec"]) && jsonvalue.Equal(told(would, "labels"), told(s.live.object, "labels")) &&
		jsonvalue.Equal(told(would, "annotations"), told(s.live.object, "annotations"))
}

// note writes the history into the annotation of a definition.
func (s *step) note(body map[string]any, history []string) {
	metadata, _ := body["metadata"].(map[string]any)
	annotations := map[string]any{}
	if given, ok := metadata["annotations"].(map[string]any); ok {
		maps.Copy(annotations, given)
	}
	digest := s.wanted.Digest()
	if len(history) == 0 || history[len(history)-1] != digest {
		history = append(history, digest)
	}
	annotations[s.history] = strings.Join(history[max(0, len(history)-maxHistory):], " ")
	metadata["annotations"] = annotations
}

// judge refuses what must not be written. It returns what builds have installed up to the
// state that is wanted.
func (s *step) judge(ctx context.Context) ([]string, error) {
	digest, name := s.wanted.Digest(), s.wanted.Name
	history := s.installs()
	at := slices.Index(history, digest)
	if at >= 0 && at < len(history)-1 {
		if !s.opts.AllowNarrowed {
			return nil, fmt.Errorf("CustomResourceDefinition %s: a newer build of the operator has installed another one: run this build without --install-crds, which leaves the newer one as it is, run the newer build, or put this one back with --allow-narrowed-crds", name)
		}
		history = history[:at+1] // so that the newer build is news again
	}
	change := crd.Compare(s.live.Definition, s.wanted, s.live.stored())
	if established, _ := s.live.condition("Established"); established == "True" && len(change.Fixed) > 0 {
		return nil, fmt.Errorf("CustomResourceDefinition %s: %s; no API server accepts that once it is established: make a new kind, or delete the definition first, and with it every object of it", name, strings.Join(change.Fixed, "; "))
	}
	if len(change.Stored) > 0 && crd.Older(s.wanted, change.Stored) {
		return nil, fmt.Errorf("CustomResourceDefinition %s: a newer build of the operator has installed the version %s, in which objects may be stored (status.storedVersions): run this build without --install-crds, which leaves the newer definition as it is, or run the newer build", name, strings.Join(change.Stored, ", "))
	}
	if len(change.Stored) > 0 {
		return nil, fmt.Errorf("CustomResourceDefinition %s: the version %s isn't in it any more, but objects may be stored in it (status.storedVersions): run migrate-storage with a build that has the version and stores in another, and then this build", name, strings.Join(change.Stored, ", "))
	}
	if len(change.Narrowed) > 0 && !s.opts.AllowNarrowed {
		return nil, fmt.Errorf("CustomResourceDefinition %s: it would narrow what is installed: %s; objects that are stored could lose values, or be refused when they are updated. Put back what is missing, add a version with a conversion webhook instead, or allow it with --allow-narrowed-crds",
			name, strings.Join(change.Narrowed, "; "))
	}
	for _, text := range change.Narrowed {
		s.log.WarnContext(ctx, "the CustomResourceDefinition is narrowed, as --allow-narrowed-crds allows", "crd", name, "change", text)
	}
	for _, text := range change.Tightened {
		s.log.WarnContext(ctx, "the CustomResourceDefinition accepts less than before; stored values stay as long as nobody changes them", "crd", name, "change", text)
	}
	return history, nil
}

// carryOut writes what look has decided, and waits until it is served.
func (s *step) carryOut(ctx context.Context) error {
	for range tries {
		switch {
		case s.body == nil && s.live.deleting():
			return nil
		case s.body == nil:
			if status, _ := s.live.condition("Established"); status == "True" && !s.recent() {
				return nil
			}
			return s.awaitServed(ctx)
		case s.opts.DryRun:
			s.log.InfoContext(ctx, "dry run: the CustomResourceDefinition would be installed", "crd", s.wanted.Name)
			return nil
		}
		again, err := s.writeBody(ctx)
		if err == nil && !again {
			s.log.InfoContext(ctx, "installed the CustomResourceDefinition", "crd", s.wanted.Name)
			return s.awaitServed(ctx)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) && (!apierrors.IsConflict(err) || isManagers(err)) && !s.hasGone(ctx) {
			return s.failed(err)
		}
		if err := s.look(ctx); err != nil { // it isn't as it was read any more
			return err
		}
	}
	return s.failed(errors.New("it changes all the time; see who else writes it"))
}

// writeBody writes the body. Where an earlier process of this operator has ended before its
// fields were applied ones, it makes them so instead, and the definition is to be looked at
// again.
func (s *step) writeBody(ctx context.Context) (again bool, err error) {
	switch {
	case s.live == nil:
		return false, s.create(ctx, s.body, false)
	case s.claims(s.live) != nil:
		return true, s.claim(ctx, s.live)
	}
	_, err = s.applied(ctx, s.body, false)
	return false, err
}

// hasGone says whether somebody has deleted the definition since it was read.
func (s *step) hasGone(ctx context.Context) bool {
	if s.live == nil {
		return false
	}
	now, err := s.get(ctx, s.wanted.Name)
	return err == nil && (now == nil || now.metadata()["uid"] != s.live.metadata()["uid"])
}

// applied applies the body. Fields are taken from this operator's own earlier creation
// alone: those of others are an error that says what to do.
func (s *step) applied(ctx context.Context, body map[string]any, dryRun bool) (map[string]any, error) {
	out, err := s.apply(ctx, s.wanted.Name, body, dryRun, false)
	if !isManagers(err) {
		return out, err
	}
	others := managersOf(err)
	if !slices.ContainsFunc(others, func(name string) bool { return name != s.manager }) {
		return s.apply(ctx, s.wanted.Name, body, dryRun, true)
	}
	return nil, fmt.Errorf("%w; another program manages these fields: leave the CustomResourceDefinition to it, and run without --install-crds, or take them over once with kubectl apply --server-side --force-conflicts --field-manager=%s -f FILE, FILE being this definition", err, s.manager)
}

// isManagers says whether an apply was refused since other managers have the fields.
func isManagers(err error) bool { return len(managersOf(err)) > 0 }

// managersOf returns the managers that an apply conflicts with.
func managersOf(err error) (names []string) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	for _, c := range status.Status().Details.Causes {
		if c.Type == metav1.CauseTypeFieldManagerConflict {
			parts := strings.SplitN(c.Message, `"`, 3)
			names = append(names, parts[min(1, len(parts)-1)])
		}
	}
	return names
}

// recent says whether this operator has written the definition so short a time ago that it may not be
// served yet.
func (s *step) recent() bool {
	managers, _ := s.live.metadata()["managedFields"].([]any)
	return slices.ContainsFunc(managers, func(m any) bool {
		entry, _ := m.(map[string]any)
		text, _ := entry["time"].(string)
		at, err := time.Parse(time.RFC3339, text)
		return entry["manager"] == s.manager && err == nil && time.Since(at) < settleWithin/2
	})
}

// awaitServed waits until the API server serves the definition's versions. An API server
// that doesn't answer meanwhile, since it begins again, is asked once more.
func (s *step) awaitServed(outer context.Context) error {
	ctx, cancel := context.WithTimeout(outer, settleWithin)
	defer cancel()
	missing := "nothing was read"
	for begin := time.Now(); ; {
		live, err := s.get(ctx, s.wanted.Name)
		switch {
		case err == nil && live == nil:
			return s.failed(errors.New("somebody has deleted it meanwhile"))
		case err == nil:
			if missing = s.missing(ctx, live); missing == "" {
				s.doubtNames(ctx, live)
				return nil
			}
			if status, message := live.condition("NamesAccepted"); status == "False" && time.Since(begin) >= namesWithin {
				return s.failed(fmt.Errorf("its names aren't accepted: %s; another CustomResourceDefinition of the group %s has them: choose others, or delete that one", message, s.wanted.Group))
			}
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return s.failed(err)
		case ctx.Err() == nil:
			missing = err.Error()
		}
		select {
		case <-ctx.Done():
			if outer.Err() != nil {
				return s.failed(context.Cause(outer))
			}
			return s.failed(fmt.Errorf("not served within %s: %s", settleWithin, missing))
		case <-time.After(lookEvery):
		}
	}
}

// doubtNames tells of names that the API server hasn't accepted, of a definition that it
// serves by those that it accepted before.
func (s *step) doubtNames(ctx context.Context, live *installed) {
	if status, message := live.condition("NamesAccepted"); status == "False" {
		s.log.WarnContext(ctx, "the API server doesn't accept all names of the CustomResourceDefinition, and serves it by those that it accepted before", "crd", s.wanted.Name, "message", message)
	}
}

// missing says what isn't served yet, "" if nothing.
func (s *step) missing(ctx context.Context, live *installed) string {
	if status, message := live.condition("Established"); status != "True" {
		return "not established: " + message
	}
	for _, v := range s.wanted.Versions {
		if !v.Served {
			continue
		}
		path := "/apis/" + s.wanted.Group + "/" + v.Name
		list, err := object(ctx, s.rest.Verb(http.MethodGet).AbsPath(path))
		if err != nil {
			return fmt.Sprintf("%s: %v", path, err)
		}
		resources, _ := list["resources"].([]any)
		if !slices.ContainsFunc(resources, func(r any) bool {
			fields, _ := r.(map[string]any)
			return fields["name"] == s.wanted.Plural
		}) {
			return path + " doesn't list " + s.wanted.Plural
		}
	}
	return ""
}
