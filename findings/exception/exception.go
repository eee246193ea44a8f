// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// The kinds of exceptions.
const (
	Kind        = "FindingException"
	ClusterKind = "ClusterFindingException"
)

// Exception is a stored exception of either kind.
type Exception struct {
	// Namespace is empty for one of the cluster.
	Namespace string
	Name      string
	Spec      settingsv1alpha2.ExceptionSpec
	Scope     settingsv1alpha2.ClusterExceptionScope
}

// Of is an exception of a namespace.
func Of(e *settingsv1alpha2.FindingException) Exception {
	x := Exception{Namespace: e.Namespace, Name: e.Name, Spec: e.Spec.ExceptionSpec}
	if e.Spec.Scope != nil {
		x.Scope.ExceptionScope = *e.Spec.Scope
	}
	return x
}

// OfCluster is an exception of the cluster.
func OfCluster(e *settingsv1alpha2.ClusterFindingException) Exception {
	x := Exception{Name: e.Name, Spec: e.Spec.ExceptionSpec}
	if e.Spec.Scope != nil {
		x.Scope = *e.Spec.Scope
	}
	return x
}

// Kind is FindingException or ClusterFindingException.
func (e *Exception) Kind() string {
	if e.Namespace == "" {
		return ClusterKind
	}
	return Kind
}

// Phase says whether an exception holds at a time.
type Phase string

// The phases of an exception.
const (
	Holds   Phase = settingsv1alpha2.ReasonHolds
	NotYet  Phase = settingsv1alpha2.ReasonNotYet
	Expired Phase = settingsv1alpha2.ReasonExpired
)

// PhaseAt says whether the exception holds at a time: from notBefore on, and before expiresAt.
func (e *Exception) PhaseAt(now time.Time) Phase {
	switch s := &e.Spec; {
	case s.ExpiresAt != nil && !now.Before(s.ExpiresAt.Time):
		return Expired
	case s.NotBefore != nil && now.Before(s.NotBefore.Time):
		return NotYet
	}
	return Holds
}

// Scan says where findings come from.
type Scan struct {
	Namespace string
	// NamespaceLabels are the labels of the namespace, for exceptions of the cluster with a selector.
	NamespaceLabels map[string]string
	Name            string
	ScanType        string
	// Target is the label scanyard.io/target.
	Target string
}

// Mark is what a finding carries that is excepted, beside its own fields.
type Mark struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Status is UnderInvestigation where the finding counts nevertheless.
	Status        settingsv1alpha2.ExceptionStatus `json:"status"`
	Justification settingsv1alpha2.Justification   `json:"justification,omitempty"`
	Reason        string                           `json:"reason"`
	ExpiresAt     *metav1.Time                     `json:"expiresAt,omitempty"`
}

// Suppresses says whether the finding counts no longer.
func (m *Mark) Suppresses() bool { return m.Status.Suppresses() }

// Problem says why an exception matches nothing.
type Problem struct {
	Namespace, Name string
	// Field is the path of the field, such as spec.match.anyOf[0].expression.
	Field string
	Err   error
}

func (p *Problem) String() string { return p.Field + ": " + p.Err.Error() }

// Matcher are all exceptions that hold. It is safe for concurrent use.
type Matcher struct {
	entries  []*entry // in the order in which they win
	problems []*Problem
}

// compiled is what the entries of one exception share.
type compiled struct {
	exception                            Exception
	scans, scanTypes, targets, namespace globs
	selector                             labels.Selector
}

// Compile takes the exceptions that hold at a time. Those that do not compile match nothing and become Problems.
func Compile(list []Exception, now time.Time) *Matcher {
	m := &Matcher{}
	for i := range list {
		if list[i].PhaseAt(now) != Holds {
			continue
		}
		m.add(list[i])
	}
	m.sort()
	return m
}

func (m *Matcher) add(e Exception) {
	entries, problem := compile(e)
	if problem != nil {
		m.problems = append(m.problems, problem)
		return
	}
	m.entries = append(m.entries, entries...)
}

func (m *Matcher) sort() { slices.SortStableFunc(m.entries, compareEntries) }

// Problems are the exceptions that match nothing as they do not compile.
func (m *Matcher) Problems() []*Problem { return m.problems }

// Check says whether an exception compiles.
func Check(e Exception) *Problem {
	_, problem := compile(e)
	return problem
}

// compareEntries is the order in which exceptions win: those of the namespace, then those of the cluster; of each, those
// that name fingerprints first; then by name.
func compareEntries(a, b *entry) int {
	x, y := &a.owner.exception, &b.owner.exception
	return cmp.Or(
		compareBools(x.Namespace == "", y.Namespace == ""),
		compareBools(a.fingerprints == nil, b.fingerprints == nil),
		strings.Compare(x.Name, y.Name),
		cmp.Compare(a.index, b.index),
	)
}

func compareNames(a, b *Exception) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func compile(e Exception) ([]*entry, *Problem) {
	c := &compiled{
		exception: e,
		scans:     compileGlobs(e.Scope.Scans), scanTypes: compileGlobs(e.Scope.ScanTypes), targets: compileGlobs(e.Scope.Targets),
		namespace: compileGlobs(e.Scope.Namespaces),
	}
	problem := func(field string, err error) *Problem {
		return &Problem{Namespace: e.Namespace, Name: e.Name, Field: field, Err: err}
	}
	if e.Scope.NamespaceSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(e.Scope.NamespaceSelector)
		if err != nil {
			return nil, problem("spec.scope.namespaceSelector", err)
		}
		c.selector = selector
	}
	entries := make([]*entry, 0, len(e.Spec.Match.AnyOf))
	for i := range e.Spec.Match.AnyOf {
		x, field, err := compileEntry(c, i)
		if err != nil {
			return nil, problem(field, err)
		}
		entries = append(entries, x)
	}
	return entries, nil
}

// reaches gives the field of the scope that leaves out a Scan, "" where the exception holds for the Scan.
func (c *compiled) reaches(scan *Scan) string {
	switch scope := &c.exception.Scope; {
	case c.exception.Namespace != "" && c.exception.Namespace != scan.Namespace:
		return "metadata.namespace"
	case len(scope.Namespaces) > 0 && !c.namespace.fit(scan.Namespace):
		return "spec.scope.namespaces"
	case c.selector != nil && !c.selector.Matches(labels.Set(scan.NamespaceLabels)):
		return "spec.scope.namespaceSelector"
	case len(scope.ScanTypes) > 0 && !c.scanTypes.fit(scan.ScanType):
		return "spec.scope.scanTypes"
	case len(scope.Scans) > 0 && !c.scans.fit(scan.Name):
		return "spec.scope.scans"
	case len(scope.Targets) > 0 && !c.targets.fit(scan.Target):
		return "spec.scope.targets"
	}
	return ""
}
