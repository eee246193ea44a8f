// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
)

// Column is a column of a table. Value gives nil for what is absent; ago gives the age of a time.
type Column struct {
	metav1.TableColumnDefinition
	Value func(obj runtime.Object, ago func(*metav1.Time) any) any
}

const ageHelp = "CreationTimestamp is a timestamp representing the server time when this object was created."

// Age writes the time since a moment as kubectl does, and nil for no moment.
func Age(now metav1.Time) func(*metav1.Time) any {
	return func(at *metav1.Time) any {
		if at == nil || at.IsZero() {
			return nil
		}
		return duration.HumanDuration(now.Sub(at.Time))
	}
}

func newColumn(name, kind string, priority int32, description string, value func(obj runtime.Object, ago func(*metav1.Time) any) any) Column {
	definition := metav1.TableColumnDefinition{Name: name, Type: kind, Priority: priority, Description: description}
	return Column{TableColumnDefinition: definition, Value: value}
}

func nameColumn() Column {
	column := newColumn("Name", "string", 0, "Name must be unique within a namespace.", func(obj runtime.Object, _ func(*metav1.Time) any) any {
		return obj.(metav1.Object).GetName()
	})
	column.Format = "name"
	return column
}

func ageColumn() Column {
	return newColumn("Age", "date", 0, ageHelp, func(obj runtime.Object, ago func(*metav1.Time) any) any {
		created := obj.(metav1.Object).GetCreationTimestamp()
		return ago(&created)
	})
}

func text(value string) any {
	if value == "" {
		return nil
	}
	return value
}

func number(value *int64) any {
	if value == nil {
		return nil
	}
	return *value
}

// reportColumns are those of the published CRDs: two of them are called Name.
var reportColumns = []Column{
	nameColumn(),
	scopeColumn("Kind", func(scope *corev1.ObjectReference) string { return scope.Kind }),
	scopeColumn("Name", func(scope *corev1.ObjectReference) string { return scope.Name }),
	summaryColumn("Pass", func(s *wgpolicyv1.PolicyReportSummary) *int64 { return s.Pass }),
	summaryColumn("Fail", func(s *wgpolicyv1.PolicyReportSummary) *int64 { return s.Fail }),
	summaryColumn("Warn", func(s *wgpolicyv1.PolicyReportSummary) *int64 { return s.Warn }),
	summaryColumn("Error", func(s *wgpolicyv1.PolicyReportSummary) *int64 { return s.Error }),
	summaryColumn("Skip", func(s *wgpolicyv1.PolicyReportSummary) *int64 { return s.Skip }),
	ageColumn(),
}

func scopeColumn(name string, value func(*corev1.ObjectReference) string) Column {
	return newColumn(name, "string", 1, strings.ToLower(name)+" of what the whole report is about.", func(obj runtime.Object, _ func(*metav1.Time) any) any {
		var scope *corev1.ObjectReference
		switch obj := obj.(type) {
		case *Report:
			scope = obj.Scope
		case *ClusterReport:
			scope = obj.Scope
		}
		if scope == nil {
			return nil
		}
		return text(value(scope))
	})
}

func summaryColumn(name string, value func(*wgpolicyv1.PolicyReportSummary) *int64) Column {
	return newColumn(name, "integer", 0, "number of results that are "+strings.ToLower(name)+".", func(obj runtime.Object, _ func(*metav1.Time) any) any {
		var summary *wgpolicyv1.PolicyReportSummary
		switch obj := obj.(type) {
		case *Report:
			summary = obj.Summary
		case *ClusterReport:
			summary = obj.Summary
		}
		if summary == nil {
			return nil
		}
		return number(value(summary))
	})
}

func imageColumn(name, kind string, priority int32, description string, value func(image *reportsv1.Image, ago func(*metav1.Time) any) any) Column {
	return newColumn(name, kind, priority, description, func(obj runtime.Object, ago func(*metav1.Time) any) any {
		return value(obj.(*reportsv1.Image), ago)
	})
}

func counted(summary *reportsv1.VulnerabilitySummary, value func(*reportsv1.VulnerabilitySummary) *int64) any {
	if summary == nil {
		return nil
	}
	return number(value(summary))
}

// reference is host/repository:tag, or with the digest where there is no tag.
func reference(registry *reportsv1.RegistryRef, repository, tag, digest string) any {
	name := repository
	if registry != nil && registry.Host != "" {
		name = registry.Host + "/" + repository
	}
	switch {
	case name == "":
		return nil
	case tag != "":
		return name + ":" + tag
	}
	return name + "@" + digest
}

// shortDigest are the first 12 digits of a digest.
func shortDigest(digest string) any {
	_, digits, found := strings.Cut(digest, ":")
	if !found {
		digits = digest
	}
	return text(digits[:min(12, len(digits))])
}

// size writes bytes for people.
func size(bytes int64) any {
	const unit = 1000
	switch {
	case bytes <= 0:
		return nil
	case bytes < unit:
		return strconv.FormatInt(bytes, 10) + "B"
	}
	value, prefix := float64(bytes)/unit, 0
	for value >= unit && prefix < 3 {
		value, prefix = value/unit, prefix+1
	}
	return fmt.Sprintf("%.1f%cB", value, "kMGT"[prefix])
}

func condition(conditions []metav1.Condition, kind string) string {
	for i := range conditions {
		if conditions[i].Type == kind {
			return conditions[i].Reason
		}
	}
	return ""
}

var imageTable = []Column{
	nameColumn(),
	imageColumn("Reference", "string", 0, "where the image was found.", func(i *reportsv1.Image, _ func(*metav1.Time) any) any {
		return reference(&i.Spec.Registry, i.Spec.Repository, i.Spec.Tag, i.Spec.Digest)
	}),
	imageColumn(
		"Platform", "string", 0, "operating system and architecture.",
		func(i *reportsv1.Image, _ func(*metav1.Time) any) any { return text(i.Spec.Platform) },
	),
	imageColumn("State", "string", 0, "state of the work.", func(i *reportsv1.Image, _ func(*metav1.Time) any) any { return text(i.Status.State) }),
	imageColumn("Critical", "integer", 0, "number of critical vulnerabilities.", func(i *reportsv1.Image, _ func(*metav1.Time) any) any {
		return counted(i.Status.Vulnerabilities, func(s *reportsv1.VulnerabilitySummary) *int64 { return s.Critical })
	}),
	imageColumn("High", "integer", 0, "number of high vulnerabilities.", func(i *reportsv1.Image, _ func(*metav1.Time) any) any {
		return counted(i.Status.Vulnerabilities, func(s *reportsv1.VulnerabilitySummary) *int64 { return s.High })
	}),
	imageColumn("Fixable", "integer", 0, "number of vulnerabilities that a newer version fixes.", func(i *reportsv1.Image, _ func(*metav1.Time) any) any {
		return counted(i.Status.Vulnerabilities, func(s *reportsv1.VulnerabilitySummary) *int64 { return s.Fixable })
	}),
	imageColumn("Scanned", "date", 0, "time since the report was made or confirmed.", func(i *reportsv1.Image, ago func(*metav1.Time) any) any {
		return ago(i.Status.ScannedAt)
	}),
	imageColumn(
		"Digest", "string", 1, "the first 12 digits of the digest.",
		func(i *reportsv1.Image, _ func(*metav1.Time) any) any { return shortDigest(i.Spec.Digest) },
	),
	imageColumn("Presence", "string", 1, "whether the registry still has the image.", func(i *reportsv1.Image, _ func(*metav1.Time) any) any {
		return text(string(i.Status.Presence))
	}),
	imageColumn("Reason", "string", 1, "reason of the state.", func(i *reportsv1.Image, _ func(*metav1.Time) any) any {
		if i.Status.Reason != "" {
			return i.Status.Reason
		}
		return text(condition(i.Status.Conditions, "Ready"))
	}),
	imageColumn("Size", "string", 1, "size of all stored layers.", func(i *reportsv1.Image, _ func(*metav1.Time) any) any { return size(i.Spec.CompressedBytes) }),
	imageColumn("OS", "string", 1, "operating system of the platform.", func(i *reportsv1.Image, _ func(*metav1.Time) any) any {
		system, _, _ := strings.Cut(i.Spec.Platform, "/")
		return text(system)
	}),
	ageColumn(),
}

func sbomColumn(name, kind, description string, value func(spec *reportsv1.SBOMSpec) any) Column {
	return newColumn(name, kind, 0, description, func(obj runtime.Object, _ func(*metav1.Time) any) any {
		return value(&obj.(*reportsv1.SBOM).Spec)
	})
}

var sbomTable = []Column{
	nameColumn(),
	sbomColumn("Reference", "string", "the image.", func(s *reportsv1.SBOMSpec) any { return reference(s.Registry, s.Repository, s.Tag, s.Digest) }),
	sbomColumn("Platform", "string", "operating system and architecture.", func(s *reportsv1.SBOMSpec) any { return text(s.Platform) }),
	sbomColumn("Packages", "integer", "number of packages.", func(s *reportsv1.SBOMSpec) any { return s.Packages }),
	sbomColumn("OS", "string", "distribution inside of the image.", func(s *reportsv1.SBOMSpec) any {
		if s.OS == nil {
			return nil
		}
		return text(strings.TrimSpace(s.OS.Family + " " + s.OS.Version))
	}),
	sbomColumn("Format", "string", "format of the document.", func(s *reportsv1.SBOMSpec) any { return text(s.Format) }),
	sbomColumn("Size", "string", "size of the document.", func(s *reportsv1.SBOMSpec) any { return size(s.Bytes) }),
	ageColumn(),
}

func vulnerabilityColumn(
	name, kind string, priority int32, description string, value func(s *reportsv1.VulnerabilityReportSpec, ago func(*metav1.Time) any) any,
) Column {
	return newColumn(name, kind, priority, description, func(obj runtime.Object, ago func(*metav1.Time) any) any {
		return value(&obj.(*reportsv1.VulnerabilityReport).Spec, ago)
	})
}

func vulnerabilityCount(name string, value func(*reportsv1.VulnerabilitySummary) *int64) Column {
	description := "number of " + strings.ToLower(name) + " vulnerabilities."
	return vulnerabilityColumn(name, "integer", 0, description, func(s *reportsv1.VulnerabilityReportSpec, _ func(*metav1.Time) any) any {
		return counted(s.Summary, value)
	})
}

func changeCount(name string, value func(*reportsv1.Changes) int64) Column {
	description := "number of vulnerabilities that are " + strings.ToLower(name) + " since the report before."
	return vulnerabilityColumn(name, "integer", 1, description, func(s *reportsv1.VulnerabilityReportSpec, _ func(*metav1.Time) any) any {
		if s.Changes == nil {
			return nil
		}
		return value(s.Changes)
	})
}

var vulnerabilityTable = []Column{
	nameColumn(),
	vulnerabilityColumn("Reference", "string", 0, "the image.", func(s *reportsv1.VulnerabilityReportSpec, _ func(*metav1.Time) any) any {
		return reference(s.Registry, s.Repository, s.Tag, s.Digest)
	}),
	vulnerabilityColumn("Platform", "string", 0, "operating system and architecture.", func(s *reportsv1.VulnerabilityReportSpec, _ func(*metav1.Time) any) any {
		return text(s.Platform)
	}),
	vulnerabilityCount("Critical", func(s *reportsv1.VulnerabilitySummary) *int64 { return s.Critical }),
	vulnerabilityCount("High", func(s *reportsv1.VulnerabilitySummary) *int64 { return s.High }),
	vulnerabilityCount("Medium", func(s *reportsv1.VulnerabilitySummary) *int64 { return s.Medium }),
	vulnerabilityCount("Low", func(s *reportsv1.VulnerabilitySummary) *int64 { return s.Low }),
	vulnerabilityCount("Unknown", func(s *reportsv1.VulnerabilitySummary) *int64 { return s.Unknown }),
	vulnerabilityCount("Fixable", func(s *reportsv1.VulnerabilitySummary) *int64 { return s.Fixable }),
	vulnerabilityCount("Suppressed", func(s *reportsv1.VulnerabilitySummary) *int64 { return s.Suppressed }),
	vulnerabilityColumn("Scanned", "date", 0, "time since the match ended.", func(s *reportsv1.VulnerabilityReportSpec, ago func(*metav1.Time) any) any {
		if s.Provenance == nil {
			return nil
		}
		return ago(s.Provenance.FinishedAt)
	}),
	vulnerabilityColumn("Engine", "string", 1, "engine that matched.", func(s *reportsv1.VulnerabilityReportSpec, _ func(*metav1.Time) any) any {
		if s.Provenance == nil || s.Provenance.Engine == nil {
			return nil
		}
		return text(strings.TrimSpace(s.Provenance.Engine.Name + " " + s.Provenance.Engine.Version))
	}),
	vulnerabilityColumn(
		"Database", "string", 1, "age of the data that was matched against.",
		func(s *reportsv1.VulnerabilityReportSpec, _ func(*metav1.Time) any) any {
			const day = 24 * 60 * 60
			if s.Provenance == nil || s.Provenance.Database == nil {
				return nil
			}
			return strconv.FormatInt(s.Provenance.Database.AgeSeconds/day, 10) + "d"
		},
	),
	changeCount("New", func(c *reportsv1.Changes) int64 { return c.New }),
	changeCount("Fixed", func(c *reportsv1.Changes) int64 { return c.Fixed }),
	vulnerabilityColumn("Digest", "string", 1, "the first 12 digits of the digest.", func(s *reportsv1.VulnerabilityReportSpec, _ func(*metav1.Time) any) any {
		return shortDigest(s.Digest)
	}),
	ageColumn(),
}

func repositoryColumn(name, kind, description string, value func(r *reportsv1.Repository, ago func(*metav1.Time) any) any) Column {
	return newColumn(name, kind, 0, description, func(obj runtime.Object, ago func(*metav1.Time) any) any {
		return value(obj.(*reportsv1.Repository), ago)
	})
}

var repositoryTable = []Column{
	nameColumn(),
	repositoryColumn("Repository", "string", "name inside of the registry; empty for the catalogue.", func(r *reportsv1.Repository, _ func(*metav1.Time) any) any {
		return text(r.Spec.Repository)
	}),
	repositoryColumn("Tags", "integer", "number of tags that the registry has.", func(r *reportsv1.Repository, _ func(*metav1.Time) any) any {
		if r.Status.Tags == nil {
			return nil
		}
		return r.Status.Tags.Listed
	}),
	repositoryColumn("Selected", "integer", "number of tags that the filter takes.", func(r *reportsv1.Repository, _ func(*metav1.Time) any) any {
		if r.Status.Tags == nil {
			return nil
		}
		return r.Status.Tags.Selected
	}),
	repositoryColumn("State", "string", "state of the discovery.", func(r *reportsv1.Repository, _ func(*metav1.Time) any) any {
		return text(r.Status.State)
	}),
	repositoryColumn("Reason", "string", "reason of the state.", func(r *reportsv1.Repository, _ func(*metav1.Time) any) any {
		return text(r.Status.Reason)
	}),
	repositoryColumn("Discovered", "date", "time since the repository was read to its end.", func(r *reportsv1.Repository, ago func(*metav1.Time) any) any {
		return ago(r.Status.DiscoveredAt)
	}),
}

func databaseColumn(name, kind, description string, value func(s *reportsv1.VulnerabilityDatabaseStatus, ago func(*metav1.Time) any) any) Column {
	return newColumn(name, kind, 0, description, func(obj runtime.Object, ago func(*metav1.Time) any) any {
		return value(&obj.(*reportsv1.VulnerabilityDatabase).Status, ago)
	})
}

var databaseTable = []Column{
	nameColumn(),
	databaseColumn("Version", "string", "the first 12 digits of the version.", func(s *reportsv1.VulnerabilityDatabaseStatus, _ func(*metav1.Time) any) any {
		return shortDigest(s.Version)
	}),
	databaseColumn("Built", "string", "when the data was built.", func(s *reportsv1.VulnerabilityDatabaseStatus, _ func(*metav1.Time) any) any {
		if s.BuiltAt == nil {
			return nil
		}
		return s.BuiltAt.UTC().Format(time.RFC3339)
	}),
	databaseColumn("Age of data", "date", "time since the data was built.", func(s *reportsv1.VulnerabilityDatabaseStatus, ago func(*metav1.Time) any) any {
		return ago(s.BuiltAt)
	}),
	databaseColumn("Fresh", "string", "whether the data is as new as it must be.", func(s *reportsv1.VulnerabilityDatabaseStatus, _ func(*metav1.Time) any) any {
		for i := range s.Conditions {
			if s.Conditions[i].Type == "Fresh" {
				return string(s.Conditions[i].Status)
			}
		}
		return nil
	}),
	databaseColumn("Changed", "integer", "number of keys that differ from before.", func(s *reportsv1.VulnerabilityDatabaseStatus, _ func(*metav1.Time) any) any {
		return number(s.ChangedKeys)
	}),
}
