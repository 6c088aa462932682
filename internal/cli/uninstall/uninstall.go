package uninstall

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/cli/terminal"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/leave"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// maxNames bounds how many objects of a kind are named.
const maxNames = 10

// An Installation says how the program is installed.
type Installation struct {
	Program   string
	Namespace string // of the Lease
	Lease     string
	Within    string // the only namespace that was looked at; empty: the flags don't restrict it
}

// PrintPlan prints what is about to be done, with counts and names.
func PrintPlan(w io.Writer, d *leave.Departure, how leave.How) {
	for i := range d.Surveys {
		s := &d.Surveys[i]
		fmt.Fprintf(w, "%s:\n", s.Operator)
		if len(s.Parents)+len(s.Children) == 0 {
			fmt.Fprintln(w, "  there are no parents and no children")
			continue
		}
		fmt.Fprintf(w, "  %s %s\n", parentsFate(how), named(s.Parents, "parent"))
		if held := len(slices.DeleteFunc(slices.Clone(s.Parents), func(r leave.Remnant) bool { return !r.Holds })); held > 0 {
			fmt.Fprintf(w, "  %s the operator's finalizer: %s\n", counted(held, "of them has", "of them have"), finalizersFate(d, how))
		}
		others, retained := split(s.Children, how)
		if len(others) > 0 || len(retained) == 0 {
			printChildren(w, childrenFate(how), others)
		}
		if len(retained) > 0 {
			printChildren(w, "keeps, as nobody's, for their types have Retain,", retained)
		}
	}
}

// printChildren prints how many children share a fate, and their names.
func printChildren(w io.Writer, fate string, children []leave.Remnant) {
	fmt.Fprintf(w, "  %s %s\n", fate, counted(len(children), "child", "children"))
	for _, group := range byType(children) {
		fmt.Fprintf(w, "    %s\n", named(group, group[0].Ref.Type.Kind))
	}
}

// split parts the children that outlive deleted parents because of Retain from the others.
func split(children []leave.Remnant, how leave.How) (others, retained []leave.Remnant) {
	for _, r := range children {
		if r.Retained && !how.Keeps() {
			retained = append(retained, r)
		} else {
			others = append(others, r)
		}
	}
	return others, retained
}

// parentsFate says what becomes of parents.
func parentsFate(how leave.How) string {
	if how.KeepParents {
		return "keeps and releases"
	}
	return "deletes"
}

// childrenFate says what becomes of children.
func childrenFate(how leave.How) string {
	switch {
	case how.KeepChildren:
		return "keeps, as nobody's,"
	case how.KeepParents:
		return "keeps, with their parents,"
	}
	return "with them go"
}

// finalizersFate says who takes finalizers off.
func finalizersFate(d *leave.Departure, how leave.How) string {
	switch {
	case how.KeepParents:
		return "it is taken off, and Finalize isn't called"
	case how.Finalize:
		return "this process finalizes them"
	case d.Standing == lead.Free:
		return "no operator works at present that could finalize them; see --finalize"
	case d.Standing == lead.Missing:
		return "the operator in the cluster has to finalize them, and there is no Lease that would tell whether it works"
	}
	return "the operator in the cluster finalizes them, " + terminal.Printable(d.Holder)
}

// PrintLeft prints what is left in the end, and what is to be removed next. It returns
// whether nothing is left that was to go.
func PrintLeft(w io.Writer, d *leave.Departure, how leave.How, in Installation) (done bool) {
	done = true
	for i := range d.Left {
		l := &d.Left[i]
		if l.Nothing() {
			fmt.Fprintf(w, "%s: nothing is left%s.\n", l.Operator, besides(how, retains(d, l.Operator, how)))
			continue
		}
		done = false
		printRemnants(w, l)
	}
	if d.Stuck {
		fmt.Fprintf(w, "Nobody holds the Lease %s/%s, so no operator works that would take its finalizer off. Start it, or run this with --finalize.\n", in.Namespace, in.Lease)
	}
	if d.Paused {
		fmt.Fprintf(w, "The parents stay paused, since an operator works: %s. Remove its Deployment, and run this once more to end the pause.\n", terminal.Printable(d.Holder))
	}
	if len(d.Left) == 0 || !done {
		return done
	}
	printNext(w, d, how, in)
	return true
}

// retains says whether an operator had children that outlive their deleted parents because of Retain.
func retains(d *leave.Departure, operator string, how leave.How) bool {
	return slices.ContainsFunc(d.Surveys, func(s leave.Survey) bool {
		_, retained := split(s.Children, how)
		return s.Operator == operator && len(retained) > 0
	})
}

// besides names what is there on purpose.
func besides(how leave.How, retained bool) string {
	switch {
	case retained:
		return " but children that were to stay, since their types have Retain"
	case how.KeepParents && how.KeepChildren:
		return " but parents and children that were to stay"
	case how.KeepParents:
		return " but parents that were to stay, and their children"
	case how.KeepChildren:
		return " but children that were to stay"
	}
	return ""
}

// printRemnants prints what is left of an operator, and why.
func printRemnants(w io.Writer, l *leave.Left) {
	var created, rest []leave.Remnant
	for _, r := range l.Parents {
		if r.New {
			created = append(created, r)
		} else {
			rest = append(rest, r)
		}
	}
	if len(rest) > 0 {
		fmt.Fprintf(w, "%s: left are %s\n", l.Operator, named(rest, "parent"))
		for _, r := range rest[:min(len(rest), maxNames)] {
			if r.Deleting {
				fmt.Fprintf(w, "  %s is being deleted; held by the finalizers %s\n", r.Ref, strings.Join(r.Finalizers, ", "))
			} else {
				fmt.Fprintf(w, "  %s isn't being deleted\n", r.Ref)
			}
		}
	}
	if len(created) > 0 {
		fmt.Fprintf(w, "%s: created meanwhile, and left alone: %s; stop what creates them, and run this again\n", l.Operator, named(created, "parent"))
	}
	for _, group := range byType(l.Children) {
		fmt.Fprintf(w, "%s: left are %s\n", l.Operator, named(group, group[0].Ref.Type.Kind))
	}
	if l.Unknown {
		fmt.Fprintf(w, "%s: what else is left couldn't be looked for\n", l.Operator)
	}
}

// printNext prints what is to be removed next.
func printNext(w io.Writer, d *leave.Departure, how leave.How, in Installation) {
	if in.Within != "" {
		fmt.Fprintf(w, "\nOnly the namespace %s was looked at. Where there are parents in others, what follows is still needed: run this without --namespace first.\n", in.Within)
	}
	fmt.Fprintf(w, "\nRemove next, in this order:\n")
	fmt.Fprintf(w, "  the Deployment and its rights, as they were installed: %s manifests … | kubectl delete -f -\n", in.Program)
	if d.Standing != lead.Missing {
		fmt.Fprintf(w, "  the Lease: kubectl delete lease %s -n %s\n", in.Lease, in.Namespace)
	}
	if how.KeepParents {
		return
	}
	said := map[string]bool{}
	for _, s := range d.Surveys {
		name := s.Parent.GVR.Resource + "." + s.Parent.GVR.Group
		if said[name] || builtIn(s.Parent.Type) {
			continue
		}
		said[name] = true
		fmt.Fprintf(w, "  the CustomResourceDefinition, if nobody else needs it: kubectl delete crd %s\n", name)
	}
}

// builtIn says whether a type is Kubernetes' own.
func builtIn(t resource.Type) bool {
	return slices.ContainsFunc(k8s.Mappings(), func(m resource.Mapping) bool { return m.Type == t })
}

// byType returns objects in groups of one type each.
func byType(objects []leave.Remnant) [][]leave.Remnant {
	var out [][]leave.Remnant
	for _, r := range objects {
		i := slices.IndexFunc(out, func(group []leave.Remnant) bool { return group[0].Ref.Type == r.Ref.Type })
		if i < 0 {
			out = append(out, []leave.Remnant{r})
		} else {
			out[i] = append(out[i], r)
		}
	}
	return out
}

// named counts objects and names the first of them.
func named(objects []leave.Remnant, kind string) string {
	var names []string
	for _, r := range objects[:min(len(objects), maxNames)] {
		names = append(names, object.KeyText(r.Ref.Key))
	}
	text := counted(len(objects), kind, kind+"s")
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	if more := len(objects) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// counted returns a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
