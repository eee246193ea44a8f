// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	v1alpha1 "github.com/scanyard/scanyard/apis/settings/v1alpha1"
)

// Name is the only name that objects of both kinds may have.
const Name = v1alpha1.Name

// The parts that are the same in both versions. They are described where v1alpha1 has them, and move here when it goes.
type (
	// Limits is that of v1alpha1.
	Limits = v1alpha1.Limits
	// ClusterLimits is that of v1alpha1.
	ClusterLimits = v1alpha1.ClusterLimits
	// ScanTypeLimit is that of v1alpha1.
	ScanTypeLimit = v1alpha1.ScanTypeLimit
	// TargetLimit is that of v1alpha1.
	TargetLimit = v1alpha1.TargetLimit
	// Weight is that of v1alpha1.
	Weight = v1alpha1.Weight
	// QueueOrder is that of v1alpha1.
	QueueOrder = v1alpha1.QueueOrder
	// Queue is that of v1alpha1.
	Queue = v1alpha1.Queue
	// TTL is that of v1alpha1.
	TTL = v1alpha1.TTL
	// Deadlines is that of v1alpha1.
	Deadlines = v1alpha1.Deadlines
	// Schedules is that of v1alpha1.
	Schedules = v1alpha1.Schedules
	// Phases is that of v1alpha1.
	Phases = v1alpha1.Phases
	// PhaseDefaults is that of v1alpha1.
	PhaseDefaults = v1alpha1.PhaseDefaults
	// Jobs is that of v1alpha1.
	Jobs = v1alpha1.Jobs
	// PullSecret is that of v1alpha1.
	PullSecret = v1alpha1.PullSecret
	// Proxy is that of v1alpha1.
	Proxy = v1alpha1.Proxy
	// CACertificate is that of v1alpha1.
	CACertificate = v1alpha1.CACertificate
	// Storage is that of v1alpha1.
	Storage = v1alpha1.Storage
	// ClusterStorage is that of v1alpha1.
	ClusterStorage = v1alpha1.ClusterStorage
	// VolumeType is that of v1alpha1.
	VolumeType = v1alpha1.VolumeType
	// Allowed is that of v1alpha1.
	Allowed = v1alpha1.Allowed
	// Phase is that of v1alpha1.
	Phase = v1alpha1.Phase
	// JobPatch is that of v1alpha1.
	JobPatch = v1alpha1.JobPatch
	// PatchTarget is that of v1alpha1.
	PatchTarget = v1alpha1.PatchTarget
)

// The values of QueueOrder and Phase.
const (
	OrderFIFO     = v1alpha1.OrderFIFO
	OrderPriority = v1alpha1.OrderPriority
	PhaseScanner  = v1alpha1.PhaseScanner
	PhaseParser   = v1alpha1.PhaseParser
	PhaseHook     = v1alpha1.PhaseHook
)

// The condition Ready and its reasons.
const (
	ConditionReady            = v1alpha1.ConditionReady
	ReasonAccepted            = v1alpha1.ReasonAccepted
	ReasonInvalid             = v1alpha1.ReasonInvalid
	ReasonOutOfBounds         = v1alpha1.ReasonOutOfBounds
	ReasonPatchMatchesNothing = v1alpha1.ReasonPatchMatchesNothing
	ReasonStorageUnavailable  = v1alpha1.ReasonStorageUnavailable
)
