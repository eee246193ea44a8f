// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	openreportsv1 "github.com/scanyard/scanyard/apis/openreports/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
)

const (
	maxResults  = 50_000
	maxMistakes = 100 // that one answer names
	maxLayers   = 512
	maxDigest   = 160
	maxName     = 768
	maxWarnings = 20
)

var (
	results = []wgpolicyv1.Result{
		wgpolicyv1.ResultPass, wgpolicyv1.ResultFail, wgpolicyv1.ResultWarn, wgpolicyv1.ResultError, wgpolicyv1.ResultSkip,
	}
	severities = []wgpolicyv1.Severity{
		wgpolicyv1.SeverityCritical, wgpolicyv1.SeverityHigh, wgpolicyv1.SeverityMedium, wgpolicyv1.SeverityLow, wgpolicyv1.SeverityInfo,
	}
	vulnerabilitySeverities = []string{"CRITICAL", "HIGH", "MEDIUM", "LOW", "UNKNOWN"}
	vulnerabilityClasses    = []string{"os-pkgs", "lang-pkgs", "binary"}
	vulnerabilityStatuses   = []string{"fixed", "affected", "will_not_fix", "end_of_life", "unknown"}
	repositoryStates        = []string{reportsv1.RepositoryWaiting, reportsv1.RepositoryWorking, reportsv1.RepositoryDone, reportsv1.RepositoryFailed}
)

// oneOf checks a value that may be absent.
func oneOf[T ~string](path *field.Path, value T, allowed []T) field.ErrorList {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func required(path *field.Path, value string) field.ErrorList {
	if value != "" {
		return nil
	}
	return field.ErrorList{field.Required(path, "")}
}

func validateReport(obj runtime.Object) field.ErrorList {
	switch obj := obj.(type) {
	case *Report:
		return append(validateConfiguration(obj.Configuration), validateResults(obj.Results)...)
	case *ClusterReport:
		return append(validateConfiguration(obj.Configuration), validateResults(obj.Results)...)
	}
	return nil
}

func validateConfiguration(configuration *openreportsv1.ReportConfiguration) field.ErrorList {
	if configuration == nil {
		return nil
	}
	path := field.NewPath("configuration", "limits")
	if configuration.Limits == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for i, result := range configuration.Limits.StatusFilter {
		if !slices.Contains(results, result) {
			errs = append(errs, field.NotSupported(path.Child("statusFilter").Index(i), result, results))
		}
	}
	return errs
}

func validateResults(found []wgpolicyv1.PolicyReportResult) field.ErrorList {
	path := field.NewPath("results")
	if len(found) > maxResults {
		return field.ErrorList{field.TooMany(path, len(found), maxResults)}
	}
	var errs field.ErrorList
	for i := range found {
		result, at := &found[i], path.Index(i)
		if result.Policy == nil { // an empty one is allowed: CRDs of these kinds take it, too
			errs = append(errs, field.Required(at.Child("policy"), ""))
		}
		errs = append(errs, oneOf(at.Child("result"), result.Result, results)...)
		errs = append(errs, oneOf(at.Child("severity"), result.Severity, severities)...)
		if len(errs) >= maxMistakes {
			return errs
		}
	}
	return errs
}

// validateDigest checks what is searched by.
func validateDigest(path *field.Path, digest string) field.ErrorList {
	errs := required(path, digest)
	return append(errs, validateColumn(path, digest, maxDigest)...)
}

// validateColumn checks a text that the database has in a column of its own: it must be of printable ASCII.
func validateColumn(path *field.Path, value string, longest int) field.ErrorList {
	if len(value) > longest {
		return field.ErrorList{field.TooLong(path, "", longest)}
	}
	for i := range len(value) {
		if value[i] <= ' ' || value[i] > '~' {
			return field.ErrorList{field.Invalid(path, value, "must be of printable ASCII characters")}
		}
	}
	return nil
}

func validateImage(obj runtime.Object) field.ErrorList {
	image, ok := obj.(*reportsv1.Image)
	if !ok {
		return nil
	}
	path := field.NewPath("spec")
	errs := validateDigest(path.Child("digest"), image.Spec.Digest)
	errs = append(errs, required(path.Child("repository"), image.Spec.Repository)...)
	errs = append(errs, validateColumn(path.Child("repository"), image.Spec.Repository, maxName)...)
	if image.Spec.External {
		if image.Spec.Registry.Name != "" || image.Spec.Registry.UID != "" {
			errs = append(errs, field.Forbidden(path.Child("registry"), "an external image is in no Registry"))
		}
	} else {
		errs = append(errs, required(path.Child("registry", "name"), image.Spec.Registry.Name)...)
	}
	errs = append(errs, validateColumn(path.Child("registry", "name"), image.Spec.Registry.Name, maxName)...)
	errs = append(errs, oneOf(field.NewPath("status", "presence"), image.Status.Presence, reportsv1.ImagePresences)...)
	if len(image.Spec.Layers) > maxLayers {
		errs = append(errs, field.TooMany(path.Child("layers"), len(image.Spec.Layers), maxLayers))
	}
	return errs
}

func validateImageUpdate(obj, old runtime.Object) field.ErrorList {
	if apiequality.Semantic.DeepEqual(obj.(*reportsv1.Image).Spec, old.(*reportsv1.Image).Spec) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), "an Image is what one digest is: it cannot be changed")}
}

func validateRepository(obj runtime.Object) field.ErrorList {
	repository, ok := obj.(*reportsv1.Repository)
	if !ok {
		return nil
	}
	path := field.NewPath("spec")
	errs := required(path.Child("registry", "name"), repository.Spec.Registry.Name)
	errs = append(errs, validateColumn(path.Child("registry", "name"), repository.Spec.Registry.Name, maxName)...)
	errs = append(errs, validateColumn(path.Child("repository"), repository.Spec.Repository, maxName)...)
	status := field.NewPath("status")
	errs = append(errs, oneOf(status.Child("state"), repository.Status.State, repositoryStates)...)
	if len(repository.Status.Warnings) > maxWarnings {
		errs = append(errs, field.TooMany(status.Child("warnings"), len(repository.Status.Warnings), maxWarnings))
	}
	return errs
}

func validateRepositoryUpdate(obj, old runtime.Object) field.ErrorList {
	if obj.(*reportsv1.Repository).Spec == old.(*reportsv1.Repository).Spec {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), "a Repository is what one name is: it cannot be changed")}
}

func validateDatabase(obj runtime.Object) field.ErrorList {
	database, ok := obj.(*reportsv1.VulnerabilityDatabase)
	if !ok {
		return nil
	}
	return validateColumn(field.NewPath("status", "version"), database.Status.Version, maxDigest)
}

func validateSBOM(obj runtime.Object) field.ErrorList {
	sbom, ok := obj.(*reportsv1.SBOM)
	if !ok {
		return nil
	}
	path := field.NewPath("spec")
	errs := validateDigest(path.Child("digest"), sbom.Spec.Digest)
	errs = append(errs, required(path.Child("image"), sbom.Spec.Image)...)
	errs = append(
		errs,
		oneOf(path.Child("completeness"), sbom.Spec.Completeness, []reportsv1.Completeness{reportsv1.CompletenessFull, reportsv1.CompletenessPartial})...)
	return append(errs, oneOf(path.Child("origin"), sbom.Spec.Origin, []reportsv1.Origin{reportsv1.OriginGenerated, reportsv1.OriginImported})...)
}

func validateSBOMUpdate(obj, old runtime.Object) field.ErrorList {
	if apiequality.Semantic.DeepEqual(obj.(*reportsv1.SBOM).Spec.SBOM, old.(*reportsv1.SBOM).Spec.SBOM) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "sbom"), "the document cannot be changed")}
}

func validateVulnerabilityReport(obj runtime.Object) field.ErrorList {
	report, ok := obj.(*reportsv1.VulnerabilityReport)
	if !ok {
		return nil
	}
	path := field.NewPath("spec")
	errs := validateDigest(path.Child("digest"), report.Spec.Digest)
	errs = append(errs, required(path.Child("image"), report.Spec.Image)...)
	if len(report.Spec.Findings) > maxResults {
		return append(errs, field.TooMany(path.Child("findings"), len(report.Spec.Findings), maxResults))
	}
	for i := range report.Spec.Findings {
		finding, at := &report.Spec.Findings[i], path.Child("findings").Index(i)
		errs = append(errs, required(at.Child("vulnerabilityID"), finding.VulnerabilityID)...)
		errs = append(errs, required(at.Child("package", "name"), finding.Package.Name)...)
		errs = append(errs, oneOf(at.Child("severity"), finding.Severity, vulnerabilitySeverities)...)
		errs = append(errs, oneOf(at.Child("class"), finding.Class, vulnerabilityClasses)...)
		errs = append(errs, oneOf(at.Child("status"), finding.Status, vulnerabilityStatuses)...)
		if len(errs) >= maxMistakes {
			return errs
		}
	}
	return errs
}
