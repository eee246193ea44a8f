// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
)

// Field selectors besides metadata.name and metadata.namespace.
const (
	imageDigest     = "image.digest"
	imageRegistry   = "image.registry"
	imageRepository = "image.repository"
)

func addFieldLabels(scheme *runtime.Scheme) error {
	for i := range Table {
		resource := &Table[i]
		known := []string{metav1.ObjectNameField, "metadata.namespace"}
		for field := range resource.Stored.Fields {
			known = append(known, field)
		}
		for field := range resource.Stored.RowFields {
			known = append(known, field)
		}
		err := scheme.AddFieldLabelConversionFunc(resource.GroupVersion.WithKind(resource.Kind), func(label, value string) (string, string, error) {
			if slices.Contains(known, label) {
				return label, value, nil
			}
			return "", "", fmt.Errorf("field label not supported: %s", label)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Field selectors by the rows of package images: field to column.
var (
	imageFields = map[string]string{
		"spec.registry.name": "registry", "spec.registry.uid": "registry_uid", "spec.repository": "repository", "spec.tag": "tag", "spec.platform": "platform",
		"spec.digest": "digest", "spec.indexDigest": "index_digest", "status.state": "state", "status.presence": "presence", "status.work.job.uid": "job_uid",
	}
	repositoryFields = map[string]string{
		"spec.registry.name": "registry", "spec.registry.uid": "registry_uid", "spec.repository": "repository", "status.state": "state",
		"status.work.job.uid": "job_uid",
	}
	documentFields = map[string]string{
		"spec.image": "image", "spec.registry.name": "registry", "spec.registry.uid": "registry_uid", "spec.repository": "repository", "spec.tag": "tag",
		"spec.platform": "platform", "spec.digest": "digest", "spec.indexDigest": "index_digest",
	}
	reportFields = with(documentFields, map[string]string{
		"spec.summary.critical": "critical", "spec.summary.high": "high", "spec.provenance.database.version": "database_version",
	})
)

func with(fields, further map[string]string) map[string]string {
	all := maps.Clone(fields)
	maps.Copy(all, further)
	return all
}

func selectableOfImage(obj runtime.Object) fields.Set {
	image, ok := obj.(*reportsv1.Image)
	if !ok {
		return nil
	}
	spec, status := &image.Spec, &image.Status
	return fields.Set{
		imageDigest: spec.Digest, imageRegistry: spec.Registry.Name, imageRepository: spec.Repository,
		"spec.registry.name": spec.Registry.Name, "spec.registry.uid": spec.Registry.UID, "spec.repository": spec.Repository, "spec.tag": spec.Tag,
		"spec.platform": spec.Platform, "spec.digest": spec.Digest, "spec.indexDigest": spec.IndexDigest,
		"status.state": status.State, "status.presence": string(status.Presence), "status.work.job.uid": jobOf(status.Work),
	}
}

func jobOf(work *reportsv1.Work) string {
	if work == nil || work.Job == nil {
		return ""
	}
	return work.Job.UID
}

func selectableOfRepository(obj runtime.Object) fields.Set {
	repository, ok := obj.(*reportsv1.Repository)
	if !ok {
		return nil
	}
	return fields.Set{
		"spec.registry.name": repository.Spec.Registry.Name, "spec.registry.uid": repository.Spec.Registry.UID,
		"spec.repository": repository.Spec.Repository, "status.state": repository.Status.State, "status.work.job.uid": jobOf(repository.Status.Work),
	}
}

func imageColumns(obj runtime.Object) map[mvcc.Column]string {
	values := selectableOfImage(obj)
	return map[mvcc.Column]string{
		mvcc.DigestColumn: values[imageDigest], mvcc.RegistryColumn: values[imageRegistry], mvcc.RepositoryColumn: values[imageRepository],
	}
}

// selectableOfDigest is for what is about an image.
func selectableOfDigest(obj runtime.Object) fields.Set {
	switch obj := obj.(type) {
	case *reportsv1.SBOM:
		return selectableOfRef(&obj.Spec.ImageRef, obj.Spec.Image)
	case *reportsv1.VulnerabilityReport:
		set := selectableOfRef(&obj.Spec.ImageRef, obj.Spec.Image)
		critical, high := worst(obj.Spec.Summary)
		set["spec.summary.critical"], set["spec.summary.high"] = strconv.FormatInt(critical, 10), strconv.FormatInt(high, 10)
		set["spec.provenance.database.version"] = databaseOf(&obj.Spec).Version
		return set
	}
	return nil
}

func selectableOfRef(ref *reportsv1.ImageRef, image string) fields.Set {
	registry := registryOf(ref)
	return fields.Set{
		imageDigest: ref.Digest, "spec.image": image, "spec.registry.name": registry.Name, "spec.registry.uid": registry.UID, "spec.repository": ref.Repository,
		"spec.tag": ref.Tag, "spec.platform": ref.Platform, "spec.digest": ref.Digest, "spec.indexDigest": ref.IndexDigest,
	}
}

func registryOf(ref *reportsv1.ImageRef) reportsv1.RegistryRef {
	if ref.Registry == nil {
		return reportsv1.RegistryRef{}
	}
	return *ref.Registry
}

func databaseOf(spec *reportsv1.VulnerabilityReportSpec) reportsv1.DatabaseUsed {
	if spec.Provenance == nil || spec.Provenance.Database == nil {
		return reportsv1.DatabaseUsed{}
	}
	return *spec.Provenance.Database
}

// worst are the numbers of critical and of high vulnerabilities.
func worst(summary *reportsv1.VulnerabilitySummary) (critical, high int64) {
	if summary == nil {
		return 0, 0
	}
	return ptr.Deref(summary.Critical, 0), ptr.Deref(summary.High, 0)
}

func digestColumn(obj runtime.Object) map[mvcc.Column]string {
	return map[mvcc.Column]string{mvcc.DigestColumn: selectableOfDigest(obj)[imageDigest]}
}
