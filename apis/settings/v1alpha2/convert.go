// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	"bytes"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/scanyard/scanyard/apis/settings/v1alpha1"
)

// AnnotationKept holds, on an object that is read as v1alpha1, what that version cannot say: JSON with the fields of this
// one at their places. An object of this version never has it.
const AnnotationKept = "settings.scanyard.io/v1alpha2"

// kept is what stands in the annotation. Forwarding has a type for each kind.
// +kubebuilder:object:generate=false
type kept[F any] struct {
	Spec   *keptSpec[F]   `json:"spec,omitempty"`
	Status *keptStatus[F] `json:"status,omitempty"`
}

// +kubebuilder:object:generate=false
type keptSpec[F any] struct {
	ResultForwarding *F                `json:"resultForwarding,omitempty"`
	Exceptions       *ExceptionLimits  `json:"exceptions,omitempty"`
	Registry         *RegistryScanning `json:"registry,omitempty"`
	TargetScope      *TargetScope      `json:"targetScope,omitempty"`
}

// orNil is nil where nothing is kept.
func (s keptSpec[F]) orNil() *keptSpec[F] {
	if s.ResultForwarding == nil && s.Exceptions == nil && s.Registry == nil && s.TargetScope == nil {
		return nil
	}
	return &s
}

// +kubebuilder:object:generate=false
type keptStatus[F any] struct {
	InForce *keptSpec[F] `json:"inForce,omitempty"`
	Sinks   []SinkStatus `json:"sinks,omitempty"`
}

// keep puts what v1alpha1 cannot say into the annotation, or removes that where there is nothing.
func keep[F any](meta *metav1.ObjectMeta, spec, inForce keptSpec[F], sinks []SinkStatus) {
	k := kept[F]{Spec: spec.orNil()}
	if before := inForce.orNil(); before != nil || len(sinks) > 0 {
		k.Status = &keptStatus[F]{InForce: before, Sinks: sinks}
	}
	delete(meta.Annotations, AnnotationKept)
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // six bytes for each "<" would be a waste
	// Strings, numbers and times, all of which JSON can say.
	if (k.Spec != nil || k.Status != nil) && e.Encode(k) == nil {
		metav1.SetMetaDataAnnotation(meta, AnnotationKept, string(bytes.TrimSpace(text.Bytes())))
	}
	if len(meta.Annotations) == 0 {
		meta.Annotations = nil
	}
}

// takeBack removes the annotation and returns what it says. One that is not of our making says nothing: conversion never
// fails, since the API server could then not read the object at all.
func takeBack[F any](meta *metav1.ObjectMeta) (spec keptSpec[F], inForce *keptSpec[F], sinks []SinkStatus) {
	text, ok := meta.Annotations[AnnotationKept]
	if !ok {
		return spec, nil, nil
	}
	delete(meta.Annotations, AnnotationKept)
	if len(meta.Annotations) == 0 {
		meta.Annotations = nil
	}
	var k kept[F]
	if json.Unmarshal([]byte(text), &k) != nil {
		return spec, nil, nil
	}
	if k.Spec != nil {
		spec = *k.Spec
	}
	if k.Status != nil {
		inForce, sinks = k.Status.InForce, k.Status.Sinks
	}
	return spec, inForce, sinks
}

// KeptFields are the fields of spec that the annotation of an object holds which was read as v1alpha1.
func KeptFields(annotation string) (fields []string) {
	var k kept[json.RawMessage]
	if json.Unmarshal([]byte(annotation), &k) != nil || k.Spec == nil {
		return nil
	}
	if k.Spec.ResultForwarding != nil {
		fields = append(fields, "resultForwarding")
	}
	if k.Spec.Exceptions != nil {
		fields = append(fields, "exceptions")
	}
	if k.Spec.Registry != nil {
		fields = append(fields, "registry")
	}
	if k.Spec.TargetScope != nil {
		fields = append(fields, "targetScope")
	}
	return fields
}

// FromV1alpha1 returns a ScanSetting of v1alpha1 as one of this version. It shares no memory with its argument.
func FromV1alpha1(in *v1alpha1.ScanSetting) *ScanSetting {
	in = in.DeepCopy()
	spec, inForce, sinks := takeBack[ResultForwarding](&in.ObjectMeta)
	out := &ScanSetting{
		ObjectMeta: in.ObjectMeta,
		Spec:       specUp(&in.Spec, spec),
		Status: ScanSettingStatus{
			Conditions: in.Status.Conditions, ObservedGeneration: in.Status.ObservedGeneration,
			InForceGeneration: in.Status.InForceGeneration, Sinks: sinks,
		},
	}
	switch {
	case in.Status.InForce != nil && inForce != nil:
		out.Status.InForce = new(specUp(in.Status.InForce, *inForce))
	case in.Status.InForce != nil:
		out.Status.InForce = new(specUp(in.Status.InForce, keptSpec[ResultForwarding]{}))
	case inForce != nil:
		out.Status.InForce = new(specUp(&v1alpha1.ScanSettingSpec{}, *inForce))
	}
	out.SetGroupVersionKind(SchemeGroupVersion.WithKind("ScanSetting"))
	return out
}

func specUp(in *v1alpha1.ScanSettingSpec, kept keptSpec[ResultForwarding]) ScanSettingSpec {
	return ScanSettingSpec{
		Limits: in.Limits, Queue: in.Queue, TTL: in.TTL, Deadlines: in.Deadlines, Phases: in.Phases, Jobs: in.Jobs,
		Storage: in.Storage, Allowed: in.Allowed, JobPatches: in.JobPatches, ResultForwarding: kept.ResultForwarding, Exceptions: kept.Exceptions,
		Registry: kept.Registry, TargetScope: kept.TargetScope,
	}
}

// ToV1alpha1 returns a ScanSetting as one of v1alpha1. It shares no memory with its argument.
func ToV1alpha1(in *ScanSetting) *v1alpha1.ScanSetting {
	in = in.DeepCopy()
	out := &v1alpha1.ScanSetting{
		ObjectMeta: in.ObjectMeta,
		Spec:       specDown(&in.Spec),
		Status: v1alpha1.ScanSettingStatus{
			Conditions: in.Status.Conditions, ObservedGeneration: in.Status.ObservedGeneration, InForceGeneration: in.Status.InForceGeneration,
		},
	}
	var inForce keptSpec[ResultForwarding]
	if s := in.Status.InForce; s != nil {
		out.Status.InForce, inForce = new(specDown(s)), keptSpec[ResultForwarding]{s.ResultForwarding, s.Exceptions, s.Registry, s.TargetScope}
	}
	spec := keptSpec[ResultForwarding]{in.Spec.ResultForwarding, in.Spec.Exceptions, in.Spec.Registry, in.Spec.TargetScope}
	keep(&out.ObjectMeta, spec, inForce, in.Status.Sinks)
	out.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("ScanSetting"))
	return out
}

func specDown(in *ScanSettingSpec) v1alpha1.ScanSettingSpec {
	return v1alpha1.ScanSettingSpec{
		Limits: in.Limits, Queue: in.Queue, TTL: in.TTL, Deadlines: in.Deadlines, Phases: in.Phases, Jobs: in.Jobs,
		Storage: in.Storage, Allowed: in.Allowed, JobPatches: in.JobPatches,
	}
}

// ClusterFromV1alpha1 is [FromV1alpha1] for a ClusterScanSetting.
func ClusterFromV1alpha1(in *v1alpha1.ClusterScanSetting) *ClusterScanSetting {
	in = in.DeepCopy()
	spec, inForce, sinks := takeBack[ClusterResultForwarding](&in.ObjectMeta)
	out := &ClusterScanSetting{
		ObjectMeta: in.ObjectMeta,
		Spec:       clusterSpecUp(&in.Spec, spec),
		Status: ClusterScanSettingStatus{
			Conditions: in.Status.Conditions, ObservedGeneration: in.Status.ObservedGeneration,
			InForceGeneration: in.Status.InForceGeneration, Sinks: sinks,
		},
	}
	switch {
	case in.Status.InForce != nil && inForce != nil:
		out.Status.InForce = new(clusterSpecUp(in.Status.InForce, *inForce))
	case in.Status.InForce != nil:
		out.Status.InForce = new(clusterSpecUp(in.Status.InForce, keptSpec[ClusterResultForwarding]{}))
	case inForce != nil:
		out.Status.InForce = new(clusterSpecUp(&v1alpha1.ClusterScanSettingSpec{}, *inForce))
	}
	out.SetGroupVersionKind(SchemeGroupVersion.WithKind("ClusterScanSetting"))
	return out
}

func clusterSpecUp(in *v1alpha1.ClusterScanSettingSpec, kept keptSpec[ClusterResultForwarding]) ClusterScanSettingSpec {
	return ClusterScanSettingSpec{
		Limits: in.Limits, Weights: in.Weights, Queue: in.Queue, TTL: in.TTL, Deadlines: in.Deadlines, Schedules: in.Schedules,
		Phases: in.Phases, Jobs: in.Jobs, Storage: in.Storage, Allowed: in.Allowed, JobPatches: in.JobPatches,
		ResultForwarding: kept.ResultForwarding, Exceptions: kept.Exceptions, Registry: kept.Registry, TargetScope: kept.TargetScope,
	}
}

// ClusterToV1alpha1 is [ToV1alpha1] for a ClusterScanSetting.
func ClusterToV1alpha1(in *ClusterScanSetting) *v1alpha1.ClusterScanSetting {
	in = in.DeepCopy()
	out := &v1alpha1.ClusterScanSetting{
		ObjectMeta: in.ObjectMeta,
		Spec:       clusterSpecDown(&in.Spec),
		Status: v1alpha1.ClusterScanSettingStatus{
			Conditions: in.Status.Conditions, ObservedGeneration: in.Status.ObservedGeneration, InForceGeneration: in.Status.InForceGeneration,
		},
	}
	var inForce keptSpec[ClusterResultForwarding]
	if s := in.Status.InForce; s != nil {
		out.Status.InForce, inForce = new(clusterSpecDown(s)), keptSpec[ClusterResultForwarding]{s.ResultForwarding, s.Exceptions, s.Registry, s.TargetScope}
	}
	spec := keptSpec[ClusterResultForwarding]{in.Spec.ResultForwarding, in.Spec.Exceptions, in.Spec.Registry, in.Spec.TargetScope}
	keep(&out.ObjectMeta, spec, inForce, in.Status.Sinks)
	out.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("ClusterScanSetting"))
	return out
}

func clusterSpecDown(in *ClusterScanSettingSpec) v1alpha1.ClusterScanSettingSpec {
	return v1alpha1.ClusterScanSettingSpec{
		Limits: in.Limits, Weights: in.Weights, Queue: in.Queue, TTL: in.TTL, Deadlines: in.Deadlines, Schedules: in.Schedules,
		Phases: in.Phases, Jobs: in.Jobs, Storage: in.Storage, Allowed: in.Allowed, JobPatches: in.JobPatches,
	}
}
