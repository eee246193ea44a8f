// SPDX-License-Identifier: Apache-2.0

package exceptiontest

import (
	"slices"
	"testing"
	"time"
)

// Place is where something is made of findings, which exceptions change.
type Place struct {
	// Name is how a failing test calls the place.
	Name string
	// Package is the folder of the code that goes by exceptions, Test that of the test which runs the cases; from the top.
	Package, Test string
}

const (
	here    = "findings/exception/exceptiontest"
	reports = "findings/report"
)

// Places are all there are. A package that gets to know exceptions must be named here, or in Others: see TestEveryPlace.
var Places = []Place{
	{"matcher", "findings/exception", here},
	{"handover to pods", "findings/exception", here},
	{"explainer", "findings/exception", here},
	{"counts", "findings/exception", here},
	{"report entries", reports, here},
	{"SARIF", reports, here},
	{"JUnit", reports, here},
	{"CSV", reports, here},
	{"Markdown", reports, here},
	{"HTML", reports, here},
	{"PolicyReport", "findings/policyreport", here},
	{"cascade", "findings/cascade/plan", here},
	{"hooks", "hooks/sdk", "hooks/sdk"},
	{"DefectDojo", "hooks/persistencedefectdojo", "hooks/persistencedefectdojo"},
	{"Dependency-Track", "hooks/persistencedependencytrack", "hooks/persistencedependencytrack"},
	{"stored PolicyReports", "reports/internal/marks", "reports/internal/marks"},
	{"VulnerabilityReports", "reports/internal/uploads", "reports/internal/server"},
	{"forwarding records", "forwarding/internal/mapping", "forwarding/internal/mapping"},
	{"command line", "cli/exceptions", "cli/exceptions"},
	{"console", "console/internal/pages/findings", "console/internal/pages"},
}

// Others are the packages that know exceptions and decide of no finding, or leave that to a place.
var Others = map[string]string{
	"cli/findings":                         "prints report entries; the command line's cases run through it",
	"console/internal/cluster":             "reads exceptions for the pages",
	"console/internal/pages/exceptions":    "shows and makes exceptions; what would match is counted by report entries",
	"console/internal/pages/overview":      "shows which exceptions end soon",
	"findings/cascade/explain":             "hands the exceptions to the cascade",
	"findings/exception/exceptiontest":     "is this table",
	"forwarding/internal/follow":           "hands the exceptions to the records",
	"hooks/persistencereports":             "makes PolicyReports of what the SDK hands to hooks",
	"operator/internal/exception":          "writes the status of exceptions",
	"operator/internal/exception/validity": "says whether exceptions hold",
	"operator/internal/exception/stamp":    "says who made them",
	"operator/internal/scan":               "hands exceptions to pods",
	"parsers/sdk/container":                "counts by the tally, which is the place counts, what the operator has handed over",
	"operator/internal/webhook":            "checks exceptions before they are stored",
	"hooks/genericwebhook":                 "sends what the SDK hands to hooks",
	"hooks/notification":                   "sends what the SDK hands to hooks",
	"hooks/persistenceazuremonitor":        "sends what the SDK hands to hooks",
	"hooks/persistenceelastic":             "sends what the SDK hands to hooks",
	"hooks/persistencestaticreport":        "writes reports by the exceptions that the SDK hands to hooks",
}

// Each runs the cases through a place, by whose name a test fails. The exceptions are of the namespace or the cluster.
func Each(t *testing.T, place, namespace string, now time.Time, run func(t *testing.T, c *Case)) {
	t.Helper()
	if !slices.ContainsFunc(Places, func(p Place) bool { return p.Name == place }) {
		t.Fatalf("%q is not in the table of places", place)
	}
	for _, c := range Cases(namespace, now) {
		t.Run(place+"/"+c.Name, func(t *testing.T) { run(t, &c) })
	}
}

// Marked compares what a place says of the finding of a case: by is KIND/NAME.
func (c *Case) Marked(t *testing.T, by string) {
	t.Helper()
	if by != c.Want {
		t.Errorf("%q holds, want %q", by, c.Want)
	}
}

// Counts compares whether a place takes the finding of a case for suppressed.
func (c *Case) Counts(t *testing.T, suppressed bool) {
	t.Helper()
	if suppressed != c.Suppressed {
		t.Errorf("suppressed is %t, want %t", suppressed, c.Suppressed)
	}
}

// Reason is why the exception of a case holds, as places tell it; empty where none does.
func (c *Case) Reason() string {
	for i := range c.List {
		if c.Want != "" && c.List[i].String() == c.Want {
			return c.List[i].Spec.Reason
		}
	}
	return ""
}
