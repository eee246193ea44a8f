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
	ResultForwarding *F `json:"resultForwarding,omitempty"`
}

// +kubebuilder:object:generate=false
type keptStatus[F any] struct {
	InForce *keptSpec[F] `json:"inForce,omitempty"`
	Sinks   []SinkStatus `json:"sinks,omitempty"`
}

// keep puts what v1alpha1 cannot say into the annotation, or removes that where there is nothing.
func keep[F any](meta *metav1.ObjectMeta, spec, inForce *F, sinks []SinkStatus) {
	var k kept[F]
	if spec != nil {
		k.Spec = &keptSpec[F]{spec}
	}
	if inForce != nil || len(sinks) > 0 {
		k.Status = &keptStatus[F]{Sinks: sinks}
	}
	if inForce != nil {
		k.Status.InForce = &keptSpec[F]{inForce}
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
func takeBack[F any](meta *metav1.ObjectMeta) (spec, inForce *F, sinks []SinkStatus) {
	text, ok := meta.Annotations[AnnotationKept]
	if !ok {
		return nil, nil, nil
	}
	delete(meta.Annotations, AnnotationKept)
	if len(meta.Annotations) == 0 {
		meta.Annotations = nil
	}
	var k kept[F]
	if json.Unmarshal([]byte(text), &k) != nil {
		return nil, nil, nil
	}
	if k.Spec != nil {
		spec = k.Spec.ResultForwarding
	}
	if k.Status != nil {
		sinks = k.Status.Sinks
		if k.Status.InForce != nil {
			inForce = k.Status.InForce.ResultForwarding
		}
	}
	return spec, inForce, sinks
}

// KeepsForwarding says whether the annotation of an object that was read as v1alpha1 holds a spec.resultForwarding.
func KeepsForwarding(annotation string) bool {
	var k kept[json.RawMessage]
	return json.Unmarshal([]byte(annotation), &k) == nil && k.Spec != nil && k.Spec.ResultForwarding != nil
}

// FromV1alpha1 returns a ScanSetting of v1alpha1 as one of this version. It shares no memory with its argument.
func FromV1alpha1(in *v1alpha1.ScanSetting) *ScanSetting {
	in = in.DeepCopy()
	forwarding, inForce, sinks := takeBack[ResultForwarding](&in.ObjectMeta)
	out := &ScanSetting{
		ObjectMeta: in.ObjectMeta,
		Spec:       specUp(&in.Spec, forwarding),
		Status: ScanSettingStatus{
			Conditions: in.Status.Conditions, ObservedGeneration: in.Status.ObservedGeneration,
			InForceGeneration: in.Status.InForceGeneration, Sinks: sinks,
		},
	}
	if in.Status.InForce != nil {
		out.Status.InForce = new(specUp(in.Status.InForce, inForce))
	} else if inForce != nil {
		out.Status.InForce = &ScanSettingSpec{ResultForwarding: inForce}
	}
	out.SetGroupVersionKind(SchemeGroupVersion.WithKind("ScanSetting"))
	return out
}

func specUp(in *v1alpha1.ScanSettingSpec, forwarding *ResultForwarding) ScanSettingSpec {
	return ScanSettingSpec{
		Limits: in.Limits, Queue: in.Queue, TTL: in.TTL, Deadlines: in.Deadlines, Phases: in.Phases, Jobs: in.Jobs,
		Storage: in.Storage, Allowed: in.Allowed, JobPatches: in.JobPatches, ResultForwarding: forwarding,
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
	var inForce *ResultForwarding
	if s := in.Status.InForce; s != nil {
		out.Status.InForce, inForce = new(specDown(s)), s.ResultForwarding
	}
	keep(&out.ObjectMeta, in.Spec.ResultForwarding, inForce, in.Status.Sinks)
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
	forwarding, inForce, sinks := takeBack[ClusterResultForwarding](&in.ObjectMeta)
	out := &ClusterScanSetting{
		ObjectMeta: in.ObjectMeta,
		Spec:       clusterSpecUp(&in.Spec, forwarding),
		Status: ClusterScanSettingStatus{
			Conditions: in.Status.Conditions, ObservedGeneration: in.Status.ObservedGeneration,
			InForceGeneration: in.Status.InForceGeneration, Sinks: sinks,
		},
	}
	if in.Status.InForce != nil {
		out.Status.InForce = new(clusterSpecUp(in.Status.InForce, inForce))
	} else if inForce != nil {
		out.Status.InForce = &ClusterScanSettingSpec{ResultForwarding: inForce}
	}
	out.SetGroupVersionKind(SchemeGroupVersion.WithKind("ClusterScanSetting"))
	return out
}

func clusterSpecUp(in *v1alpha1.ClusterScanSettingSpec, forwarding *ClusterResultForwarding) ClusterScanSettingSpec {
	return ClusterScanSettingSpec{
		Limits: in.Limits, Weights: in.Weights, Queue: in.Queue, TTL: in.TTL, Deadlines: in.Deadlines, Schedules: in.Schedules,
		Phases: in.Phases, Jobs: in.Jobs, Storage: in.Storage, Allowed: in.Allowed, JobPatches: in.JobPatches, ResultForwarding: forwarding,
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
	var inForce *ClusterResultForwarding
	if s := in.Status.InForce; s != nil {
		out.Status.InForce, inForce = new(clusterSpecDown(s)), s.ResultForwarding
	}
	keep(&out.ObjectMeta, in.Spec.ResultForwarding, inForce, in.Status.Sinks)
	out.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("ClusterScanSetting"))
	return out
}

func clusterSpecDown(in *ClusterScanSettingSpec) v1alpha1.ClusterScanSettingSpec {
	return v1alpha1.ClusterScanSettingSpec{
		Limits: in.Limits, Weights: in.Weights, Queue: in.Queue, TTL: in.TTL, Deadlines: in.Deadlines, Schedules: in.Schedules,
		Phases: in.Phases, Jobs: in.Jobs, Storage: in.Storage, Allowed: in.Allowed, JobPatches: in.JobPatches,
	}
}
