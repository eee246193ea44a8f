// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	settingsv1alpha1 "github.com/scanyard/scanyard/apis/settings/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// staleCopy detects an update of settings through v1alpha1 that would change what that version cannot express: the
// annotation differs from the one of the stored object.
func staleCopy(req admission.Request) (field.ErrorList, error) {
	if req.Kind.Group != settingsv1alpha1.SchemeGroupVersion.Group || req.Kind.Version != settingsv1alpha1.SchemeGroupVersion.Version {
		return nil, nil
	}
	stored, err := keptIn(req.OldObject.Raw)
	if err != nil {
		return nil, fmt.Errorf("read the object as it was: %w", err)
	}
	sent, err := keptIn(req.Object.Raw)
	if err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	fields := settingsv1alpha2.KeptFields(stored)
	if sent == stored || sent == "" && len(fields) == 0 {
		return nil, nil
	}
	if len(fields) == 0 {
		fields = settingsv1alpha2.KeptFields(sent)
	}
	return field.ErrorList{{
		Type: field.ErrorTypeInvalid, Field: field.NewPath("metadata", "annotations").Key(settingsv1alpha2.AnnotationKept).String(), BadValue: field.OmitValueType{},
		Detail: fmt.Sprintf("this %s has %s, which v1alpha1 cannot say: write it as v1alpha2, or keep the annotation %s as it was",
			req.Kind.Kind, cmp.Or(strings.Join(fields, " and "), "resultForwarding"), settingsv1alpha2.AnnotationKept),
	}}, nil
}

// keptIn returns the annotation of an object.
func keptIn(raw []byte) (string, error) {
	var o metav1.PartialObjectMetadata
	err := json.Unmarshal(raw, &o)
	return o.Annotations[settingsv1alpha2.AnnotationKept], err
}

// readScanSetting reads a ScanSetting of either version.
func readScanSetting(raw []byte) (*settingsv1alpha2.ScanSetting, error) {
	return read(raw, settingsv1alpha2.FromV1alpha1)
}

// readClusterScanSetting reads a ClusterScanSetting of either version.
func readClusterScanSetting(raw []byte) (*settingsv1alpha2.ClusterScanSetting, error) {
	return read(raw, settingsv1alpha2.ClusterFromV1alpha1)
}

func read[Old, New any](raw []byte, up func(*Old) *New) (*New, error) {
	var version metav1.TypeMeta
	if err := json.Unmarshal(raw, &version); err != nil {
		return nil, err
	}
	if version.APIVersion == settingsv1alpha1.SchemeGroupVersion.String() {
		old := new(Old)
		if err := json.Unmarshal(raw, old); err != nil {
			return nil, err
		}
		return up(old), nil
	}
	o := new(New)
	return o, json.Unmarshal(raw, o)
}
