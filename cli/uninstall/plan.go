// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/view"
)

// Results says what becomes of stored results.
type Results string

// Values of --results.
const (
	ResultsUnsaid Results = ""
	ResultsKeep   Results = "keep"
	ResultsDelete Results = "delete"
)

// Release is a release of Helm.
type Release struct {
	types.NamespacedName

	Chart string
}

// Scan is what matters of a Scan here.
type Scan struct {
	types.NamespacedName

	// Held says that finalizers of the operator hold the Scan.
	Held bool
	// Others are finalizers that others have set.
	Others []string
}

// own are the finalizers that the operator sets, and takes off when it has cleaned up.
var own = []string{executionv1.FinalizerStorage, executionv1.FinalizerStorageLegacy, executionv1.FinalizerDelivery}

// ofOthers are the finalizers of a Scan that others have set.
func ofOthers(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(f string) bool { return slices.Contains(own, f) })
}

// Inventory is what is there.
type Inventory struct {
	Schedules []types.NamespacedName
	Scans     []Scan
	// Releases are those of this project's charts.
	Releases []Release
	// Operator says that a Deployment of an operator is there; Works that it has an available pod.
	Operator, Works bool
	// Accounts are ServiceAccounts that the operator has made, each with a Role and a RoleBinding of its name.
	Accounts []types.NamespacedName
	// CRDs are the kinds, each with how many objects of it there are beside Scans and ScheduledScans.
	CRDs []CRD
	// Leftovers are what programs have made for themselves, beside accounts.
	Leftovers []Leftover
	// Boards are those of the console, which people have made.
	Boards []types.NamespacedName
	// Volumes are the claims of our charts, and others in the namespaces of their releases.
	Volumes []Volume
}

// Leftover is an object that a program has made for itself, and that Helm does not know.
type Leftover struct {
	types.NamespacedName

	Kind string
	// Holds says what is in the object, for people.
	Holds string
	// Kept says why the object stays; empty: nobody needs it without the program.
	Kept string
}

func (l Leftover) String() string { return place(l.Kind+" "+l.Name, l.Namespace) + ": " + l.Holds }

// Volume is a claim.
type Volume struct {
	types.NamespacedName

	// Holds says what is on it, for people. Empty: the claim is of none of our charts, and stays in any case.
	Holds string
}

func (v Volume) String() string {
	text := place("volume claim "+v.Name, v.Namespace)
	if v.Holds == "" {
		return text
	}
	return text + ": " + v.Holds
}

// place says where an object is; some are in no namespace.
func place(what, namespace string) string {
	if namespace == "" {
		return what
	}
	return what + " in namespace " + namespace
}

// CRD is one of our kinds.
type CRD struct {
	Name    string
	Objects int
}

// Options are what the user decides.
type Options struct {
	Results Results
	// WithoutOperator takes finalizers off, where no operator is left that could.
	WithoutOperator bool
	// CRDs removes the kinds, and with them what people have written of them.
	CRDs bool
	// Volumes removes the claims of our charts, and with them the data.
	Volumes bool
}

// State says what can be done about a step now.
type State string

// States of steps.
const (
	Done  State = "done"
	Ready State = "ready"
	// ByHand is for the user: what Helm has installed Helm removes.
	ByHand State = "by hand"
	// Undecided waits for a flag.
	Undecided State = "to decide"
	// Later waits for the steps before it.
	Later State = "later"
	// Stays is what nobody asked to remove.
	Stays State = "stays"
)

// Step is a part of the way, in order.
type Step struct {
	// Key names the step for the code that acts.
	Key   string
	Title string
	State State
	// Says are lines for people, Type are commands for them.
	Says, Type []string
}

// Keys of steps.
const (
	stepSources  = "sources"
	stepScans    = "scans"
	stepReleases = "releases"
	stepMade     = "made"
	stepVolumes  = "volumes"
	stepCRDs     = "crds"
	stepRest     = "rest"
)

// Plan returns the steps.
func Plan(i Inventory, o Options) []Step {
	steps := []Step{sources(i), scans(i, o), releases(i), made(i), volumes(i, o), crds(i, o)}
	blocked := false
	for n := range steps {
		s := &steps[n]
		if blocked && s.State != Done && s.State != Stays {
			s.State = Later
		}
		blocked = blocked || s.State == Ready || s.State == ByHand || s.State == Undecided
	}
	return append(steps, rest(i, o))
}

// startsScans are charts whose programs start Scans, or make schedules.
func startsScans(chart string) bool {
	return strings.HasPrefix(chart, "auto-discovery") || chart == "registry"
}

func sources(i Inventory) Step {
	s := Step{Key: stepSources, Title: "Stop what starts scans", State: Done}
	if n := len(i.Schedules); n > 0 {
		s.State = Ready
		s.Says = append(s.Says, fmt.Sprintf("%s: deleted (%s)", view.Plural(int64(n), "schedule"), places(i.Schedules)))
	}
	if s.Type = commands(i.Releases, startsScans); len(s.Type) > 0 {
		s.State = ByHand // they would make the schedules anew
	}
	return s
}

func scans(i Inventory, o Options) Step {
	s := Step{Key: stepScans, Title: "Delete the scans, while the operator runs", State: Done}
	if len(i.Scans) == 0 {
		return s
	}
	names, held := make([]types.NamespacedName, len(i.Scans)), int64(0)
	for n, scan := range i.Scans {
		if names[n] = scan.NamespacedName; scan.Held {
			held++
		}
	}
	s.State = Ready
	s.Says = []string{fmt.Sprintf("%s: deleted (%s)", view.Plural(int64(len(i.Scans)), "scan"), places(names))}
	switch o.Results {
	case ResultsKeep:
		s.Says = append(s.Says, "their results stay in the bucket")
	case ResultsDelete:
		s.Says = append(s.Says, "their results in the bucket are deleted")
	case ResultsUnsaid:
		s.State = Undecided
		s.Says = append(s.Says, "their results in the bucket: say --results=keep or --results=delete")
	}
	s.Says = append(s.Says, heldByOthers(i.Scans)...)
	if held == 0 || i.Works {
		return s
	}
	switch {
	case !o.WithoutOperator:
		s.State = Undecided
		s.Says = append(s.Says, fmt.Sprintf("no operator runs, so the finalizers of %s stay: install it again, or say --without-operator, "+
			"which takes them off and leaves the results in the bucket", view.Plural(held, "scan")))
	case o.Results == ResultsDelete:
		s.State = Undecided
		s.Says = append(s.Says, "no operator runs that could delete results: say --results=keep, or install it again")
	default:
		s.Says = append(s.Says, fmt.Sprintf("the finalizers of %s are taken off, since no operator runs", view.Plural(held, "scan")))
	}
	return s
}

// heldByOthers says which finalizers nobody here takes off.
func heldByOthers(scans []Scan) []string {
	var n int64
	var names []string
	for _, s := range scans {
		if len(s.Others) > 0 {
			n++
			names = append(names, s.Others...)
		}
	}
	if n == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{fmt.Sprintf("%s with finalizers of others, which only those take off: %s", view.Plural(n, "scan"), strings.Join(slices.Compact(names), ", "))}
}

func releases(i Inventory) Step {
	s := Step{Key: stepReleases, Title: "Uninstall the charts, the operator last", State: Done}
	s.Type = commands(i.Releases, func(chart string) bool { return !startsScans(chart) })
	switch {
	case len(s.Type) > 0:
		s.State = ByHand
	case i.Operator:
		s.State = ByHand
		s.Says = []string{"an operator is there that Helm does not know of: remove its Deployment"}
	}
	return s
}

func made(i Inventory) Step {
	s := Step{Key: stepMade, Title: "Remove what the programs have made for themselves", State: Done}
	if n := len(i.Accounts); n > 0 {
		s.Says = append(s.Says, fmt.Sprintf("%s, each with its Role and RoleBinding (%s)", view.Plural(int64(n), "ServiceAccount"), places(i.Accounts)))
	}
	for _, l := range i.Leftovers {
		if l.Kept == "" {
			s.Says = append(s.Says, l.String())
		}
	}
	if len(s.Says) > 0 {
		s.State = Ready
	}
	return s
}

func volumes(i Inventory, o Options) Step {
	s := Step{Key: stepVolumes, Title: "Remove the volumes", State: Done}
	for _, v := range i.Volumes {
		if v.Holds != "" {
			s.Says = append(s.Says, v.String())
		}
	}
	switch {
	case len(s.Says) == 0:
	case o.Volumes:
		s.State = Ready
	default:
		s.State = Stays
		s.Says = append(s.Says, "--volumes removes them, with the data")
	}
	return s
}

func crds(i Inventory, o Options) Step {
	s := Step{Key: stepCRDs, Title: "Remove the kinds", State: Done}
	if len(i.CRDs) == 0 {
		return s
	}
	s.State = Ready
	if !o.CRDs {
		s.State = Stays
		s.Says = []string{"they stay for a later installation; --crds removes them"}
	}
	for _, c := range i.CRDs {
		line := c.Name
		if c.Objects > 0 {
			line += ", with " + view.Plural(int64(c.Objects), "object")
		}
		s.Says = append(s.Says, line)
	}
	return s
}

func rest(i Inventory, o Options) Step {
	s := Step{Key: stepRest, Title: "What stays in any case", State: Stays}
	for _, l := range i.Leftovers {
		if l.Kept != "" {
			s.Says = append(s.Says, l.String()+"; "+l.Kept)
		}
	}
	if n := len(i.Boards); n > 0 {
		s.Says = append(s.Says, fmt.Sprintf("%s of the console, which people have made (%s)", view.Plural(int64(n), "board"), places(i.Boards)))
	}
	for _, v := range i.Volumes {
		if v.Holds == "" {
			s.Says = append(s.Says, v.String()+", which is not known here")
		}
	}
	if o.Results != ResultsDelete {
		s.Says = append(s.Says, "results in the bucket")
	}
	s.Says = append(s.Says, "namespaces, Secrets that you have made, and what hooks have sent elsewhere")
	return s
}

// last orders charts: what reads from others goes first, and the operator last.
var last = []string{"forwarding", "console", "reports", "scanyard"}

// commands uninstall the releases of some charts.
func commands(all []Release, of func(chart string) bool) []string {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b Release) int {
		return cmp.Or(slices.Index(last, a.Chart)-slices.Index(last, b.Chart), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var out []string
	for _, r := range sorted {
		if of(r.Chart) {
			out = append(out, fmt.Sprintf("helm -n %s uninstall %s", r.Namespace, r.Name))
		}
	}
	return out
}

// mostPlaces is how many namespaces a line names.
const mostPlaces = 5

// places says in which namespaces objects are.
func places(all []types.NamespacedName) string {
	counts := map[string]int{}
	var names []string
	for _, n := range all {
		if counts[n.Namespace]++; counts[n.Namespace] == 1 {
			names = append(names, n.Namespace)
		}
	}
	slices.Sort(names)
	var out []string
	for _, name := range names[:min(len(names), mostPlaces)] {
		out = append(out, fmt.Sprintf("%d in %s", counts[name], name))
	}
	if more := len(names) - mostPlaces; more > 0 {
		out = append(out, view.Plural(int64(more), "more namespace"))
	}
	return strings.Join(out, ", ")
}
