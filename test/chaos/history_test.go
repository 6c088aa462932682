package chaos

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A history is what the audit log and the records of the replicas tell. The
// log may lack what kube-apiserver answered in the moment it was killed.
type history struct {
	requests  []request
	finalized map[types.UID]time.Time // the first time
	restores  []restored              // in their order
}

// A restored is a restore of etcd from a backup. What was written in between never was.
type restored struct {
	backup time.Time // when the backup was begun
	done   time.Time // before any request of the new history
}

// restoresFile has a line for each restore.
const restoresFile = "restores"

// A request is a write that the API server has answered.
type request struct {
	identity string    // of the replica; "" for anybody else's
	sent     time.Time // by a replica
	answered time.Time
	received time.Time
	text     string // for people
	resource string
	code     int
	object   answered
}

// An answered is what became of a lease or a parent, or a Status.
type answered struct {
	Kind     string
	Metadata struct {
		Name            string
		UID             types.UID
		ResourceVersion string
		Finalizers      []string
	}
	Spec struct {
		HolderIdentity string
		AcquireTime    *time.Time
	}
	Details struct{ UID types.UID } // of a Status: what was removed
}

// readHistory reads what is in the folder of a run.
func readHistory(dir string) (*history, error) {
	h := &history{finalized: map[types.UID]time.Time{}}
	if err := eachLine(filepath.Join(dir, "audit.log"), h.takeRequest); err != nil {
		return nil, err
	}
	if err := eachLine(filepath.Join(dir, restoresFile), h.takeRestore); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	records, err := filepath.Glob(filepath.Join(dir, "finalized-*"))
	if err != nil {
		return nil, err
	}
	for _, file := range records {
		if err := eachLine(file, h.takeRecord); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// eachLine leaves out a last line that was only begun.
func eachLine(path string, take func([]byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := take(line); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

func (h *history) takeRecord(line []byte) error {
	uid, text, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	ns, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	at := time.Unix(0, ns)
	if first, ok := h.finalized[types.UID(uid)]; !ok || at.Before(first) {
		h.finalized[types.UID(uid)] = at
	}
	return nil
}

func (r restored) line() []byte {
	return fmt.Appendf(nil, "%d %d", r.backup.UnixNano(), r.done.UnixNano())
}

func (h *history) takeRestore(line []byte) error {
	var backup, done int64
	if _, err := fmt.Sscan(string(line), &backup, &done); err != nil {
		return err
	}
	h.restores = append(h.restores, restored{time.Unix(0, backup), time.Unix(0, done)})
	return nil
}

// forgotten says whether what a request has written may have gone with a restore.
func (h *history) forgotten(r *request) bool {
	return slices.ContainsFunc(h.restores, func(s restored) bool { return r.answered.After(s.backup) && r.received.Before(s.done) })
}

// epoch is how many restores there were before a request.
func (h *history) epoch(r *request) (n int) {
	for _, s := range h.restores {
		if r.received.After(s.done) {
			n++
		}
	}
	return n
}

func (h *history) takeRequest(line []byte) error {
	var entry struct {
		Stage, Verb, UserAgent, RequestURI string
		ObjectRef                          struct{ Resource string }
		ResponseStatus                     struct{ Code int }
		ResponseObject                     json.RawMessage
		RequestReceivedTimestamp           time.Time
		StageTimestamp                     time.Time
	}
	if err := json.Unmarshal(line, &entry); err != nil {
		if len(line) > 0 && line[0] != '{' || !strings.HasSuffix(strings.TrimSpace(string(line)), "}") {
			return nil // half a line: kube-apiserver was killed, and another went on
		}
		return err
	}
	if entry.Stage != "ResponseComplete" && entry.Stage != "Panic" || strings.Contains(entry.RequestURI, "dryRun=All") {
		return nil
	}
	r := request{
		received: entry.RequestReceivedTimestamp, answered: entry.StageTimestamp, resource: entry.ObjectRef.Resource, code: entry.ResponseStatus.Code,
		text: fmt.Sprintf("%s %s: %d", entry.Verb, entry.RequestURI, entry.ResponseStatus.Code),
	}
	if of, ok := strings.CutPrefix(entry.UserAgent, agentPrefix); ok {
		identity, ns, _ := strings.Cut(of, " ")
		sent, err := strconv.ParseInt(ns, 10, 64)
		if err != nil {
			return err
		}
		r.identity, r.sent = identity, time.Unix(0, sent)
	}
	if r.succeeded() && len(entry.ResponseObject) > 0 {
		if err := json.Unmarshal(entry.ResponseObject, &r.object); err != nil {
			return err
		}
	}
	h.requests = append(h.requests, r)
	return nil
}

func (r *request) succeeded() bool { return r.code >= 200 && r.code < 300 }

// isWork says whether it is a write that needs the lease. A review of the operator's own
// rights stores nothing; a standby asks for it, too.
func (r *request) isWork() bool {
	return r.identity != "" && r.resource != "leases" && r.resource != "selfsubjectaccessreviews"
}

// checkFinalized sees to it that no parent went that had the operator's
// finalizer, but was never finalized, or only later. A parent may go at once
// that got the finalizer while it was being deleted: kube-apiserver looks for
// finalizers when a deletion begins, and doesn't look again. What a restore has taken
// back tells nothing, but for the deletions that began.
func (h *history) checkFinalized(living []types.UID) (violations []violation) {
	guarded, released, removed := map[types.UID]time.Time{}, map[types.UID]time.Time{}, map[types.UID]time.Time{}
	names := map[types.UID]string{}
	var order []types.UID
	for _, r := range h.requests {
		if r.object.Kind == "Status" && r.resource == "parents" {
			removed[r.object.Details.UID] = r.received
		}
		if r.object.Kind != parentType().Kind || h.forgotten(&r) {
			continue
		}
		uid := r.object.Metadata.UID
		switch has := slices.Contains(r.object.Metadata.Finalizers, finalizer); {
		case has && guarded[uid].IsZero():
			guarded[uid], names[uid] = r.answered, r.object.Metadata.Name
			order = append(order, uid)
		case has:
		case !guarded[uid].IsZero() && released[uid].IsZero():
			released[uid] = r.answered
		}
	}
	for _, uid := range order {
		if begun, ok := removed[uid]; ok && begun.Before(guarded[uid]) {
			continue
		}
		at, done := h.finalized[uid]
		switch went := released[uid]; {
		case !done && !slices.Contains(living, uid):
			violations = append(violations, violation{unfinalized, fmt.Sprintf("%s, %s, has gone", names[uid], uid)})
		case done && !went.IsZero() && at.After(went):
			violations = append(violations, violation{unfinalized, fmt.Sprintf("%s, %s, was released %v before", names[uid], uid, at.Sub(went))})
		}
	}
	return violations
}

// A tenure is the time in which a replica held the lease.
type tenure struct {
	holder     string
	begin, end time.Time   // zero end: it does still
	renewals   []time.Time // when those that succeeded were sent
}

// tenures are in the order in which they followed each other. A restore takes the lease
// back too, so that one may get it while another, which had it since, can't know yet.
func (h *history) tenures() ([]tenure, error) {
	type change struct {
		epoch, version int
		*request
	}
	var changes []change
	for i, r := range h.requests {
		if r.object.Kind != "Lease" {
			continue
		}
		version, err := strconv.Atoi(r.object.Metadata.ResourceVersion)
		if err != nil {
			return nil, fmt.Errorf("Lease: %w", err)
		}
		changes = append(changes, change{h.epoch(&r), version, &h.requests[i]})
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.version, b.version))
	})
	var out []tenure
	epoch := 0
	for _, c := range changes {
		holder := c.object.Spec.HolderIdentity
		if n := len(out); n == 0 || out[n-1].holder != holder {
			if n > 0 {
				out[n-1].end = c.answered
				if known := h.knownBy(epoch, c.epoch); known.After(c.answered) {
					out[n-1].end = known
				}
			}
			begin := c.received
			if t := c.object.Spec.AcquireTime; t != nil && t.Before(begin) {
				begin = *t // if the entry of its first write is lacking
			}
			out = append(out, tenure{holder: holder, begin: begin})
		}
		last := &out[len(out)-1]
		last.renewals = append(last.renewals, c.sent)
		epoch = c.epoch
	}
	return slices.DeleteFunc(out, func(t tenure) bool { return t.holder == "" }), nil
}

// knownBy is when whoever held the lease before a restore knows at the latest that another
// one has it; zero if there was no restore between the epochs.
func (h *history) knownBy(before, after int) (known time.Time) {
	if before < after {
		known = h.restores[after-1].done.Add(renewDeadline)
	}
	return known
}

// leaseSlack is for a renewal whose entry is lacking, and for what happens
// between the last look at the lease and the sending.
const leaseSlack = 2 * time.Second

// checkLease sees to it that a replica sent writes only while it held the
// lease, and had renewed it within renewDeadline.
func (h *history) checkLease() ([]violation, error) {
	tenures, err := h.tenures()
	if err != nil {
		return nil, err
	}
	of := map[string][]tenure{}
	for _, t := range tenures {
		of[t.holder] = append(of[t.holder], t)
	}
	var violations []violation
	for _, r := range h.requests {
		if !r.isWork() {
			continue
		}
		reason := "it never held the lease"
		for _, t := range of[r.identity] {
			if reason = t.refuses(r.sent); reason == "" {
				break
			}
		}
		if reason != "" {
			violations = append(violations, violation{leaseless, fmt.Sprintf("replica %s: %s, sent at %s: %s", r.identity, r.text, r.sent.Format(time.StampMicro), reason)})
		}
	}
	return violations, nil
}

// refuses says why nothing may be sent then.
func (t *tenure) refuses(sent time.Time) string {
	switch {
	case sent.Before(t.begin):
		return "it got the lease at " + t.begin.Format(time.StampMicro)
	case !t.end.IsZero() && sent.After(t.end):
		return "it lost the lease at " + t.end.Format(time.StampMicro)
	}
	var last time.Time
	for _, renewed := range t.renewals {
		if !renewed.After(sent) {
			last = renewed
		}
	}
	if last.IsZero() {
		last = t.begin
	}
	if sent.Sub(last) > renewDeadline+leaseSlack {
		return "it renewed the lease last at " + last.Format(time.StampMicro)
	}
	return ""
}

// checkSilence sees to it that no replica wrote anything after from.
func (h *history) checkSilence(from time.Time) (violations []violation) {
	for _, r := range h.requests {
		if r.isWork() && r.received.After(from) {
			violations = append(violations, violation{noise, fmt.Sprintf("replica %s: %s", r.identity, r.text)})
		}
	}
	return violations
}
