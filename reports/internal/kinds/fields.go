// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

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

func selectableOfImage(obj runtime.Object) fields.Set {
	image, ok := obj.(*reportsv1.Image)
	if !ok {
		return nil
	}
	return fields.Set{imageDigest: image.Spec.Digest, imageRegistry: image.Spec.Registry.Name, imageRepository: image.Spec.Repository}
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
		return fields.Set{imageDigest: obj.Spec.Digest}
	case *reportsv1.VulnerabilityReport:
		return fields.Set{imageDigest: obj.Spec.Digest}
	}
	return nil
}

func digestColumn(obj runtime.Object) map[mvcc.Column]string {
	return map[mvcc.Column]string{mvcc.DigestColumn: selectableOfDigest(obj)[imageDigest]}
}
