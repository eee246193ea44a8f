// SPDX-License-Identifier: Apache-2.0

package v1

// Labels and annotations that the operator sets on the objects of a Scan.
// Those below securecodebox.io are the wire contract: NetworkPolicies, log
// collectors and other operators select by them.
const (
	// LabelJobType tells which phase of a Scan a Job runs; one of the JobType values.
	LabelJobType = "securecodebox.io/job-type"
	// LabelHookName names the hook that a hook Job runs. Names that are no valid
	// label value are shortened and hashed; AnnotationHookName then has the whole name.
	LabelHookName = "securecodebox.io/hook-name"
	// AnnotationHookName is the whole name of the hook that a hook Job runs.
	AnnotationHookName = "scanyard.io/hook-name"
	// LabelScanUID is the UID of the Scan that a Job, Role or mirrored
	// ParseDefinition serves. Jobs outside the Scan's namespace have no owner
	// reference; this label is how they are found.
	LabelScanUID = "scanyard.io/scan-uid"
	// AnnotationScan is "<namespace>/<name>" of the Scan that an object serves.
	AnnotationScan = "scanyard.io/scan"
	// LabelMirrorOf marks a namespaced ParseDefinition that the operator keeps for a
	// clusterWide Scan, since parser and hook images read the namespaced kind only.
	// namespaceLocal Scans never see an object with this label.
	LabelMirrorOf = "scanyard.io/mirror-of"
	// LabelManagedBy is the usual label; pods of Scans carry ManagedBy as its value.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy on the pods of Scans.
	ManagedBy = "securecodebox"
	// AnnotationDiscoveryIgnore keeps auto-discovery from scanning the pods of Scans.
	AnnotationDiscoveryIgnore = "auto-discovery.securecodebox.io/ignore"
	// AnnotationIstioInject is Istio's switch for its sidecar; without it a Job's pod
	// would never finish in a namespace with injection.
	AnnotationIstioInject = "sidecar.istio.io/inject"
	// AnnotationOnDelete on a Scan says what becomes of its stored results when the
	// Scan is deleted: OnDeleteRetain keeps them, anything else removes them.
	AnnotationOnDelete = "storage.scanyard.io/on-delete"
	// AnnotationRerun on a Scan that has ended asks to run hooks again: "hooks" for those
	// that failed or were cancelled, "hook/NAME" for one. Whatever follows an @ only
	// makes the value a new one: "hooks@2", "hook/notify@2026-11-21T10:00:00Z".
	AnnotationRerun = "scanyard.io/rerun"
	// LabelAttempt counts the attempts of a Job's phase, on Jobs after the first.
	LabelAttempt = "scanyard.io/attempt"
	// OnDeleteRetain is the value of AnnotationOnDelete that keeps stored results.
	OnDeleteRetain = "retain"
)

// Values of LabelJobType.
const (
	JobTypeScanner          = "scanner"
	JobTypeParser           = "parser"
	JobTypeReadOnlyHook     = "read-only-hook"
	JobTypeReadAndWriteHook = "read-and-write-hook"
)

// Finalizers that hold a Scan until its stored results are removed.
const (
	// FinalizerStorage is set by this operator and by secureCodeBox.
	FinalizerStorage = "s3.storage.securecodebox.io/scan-files"
	// FinalizerStorageLegacy was set by old versions of secureCodeBox and means the same.
	FinalizerStorageLegacy = "s3.storage.securecodebox.io"
)

// Names that scan pods and their charts rely on.
const (
	// ServiceAccountLurker is the ServiceAccount, Role and RoleBinding of scanner pods.
	ServiceAccountLurker = "lurker"
	// ServiceAccountParser is the ServiceAccount, Role and RoleBinding of parser pods.
	ServiceAccountParser = "parser"
	// ServiceAccountHook is the ServiceAccount, Role and RoleBinding of hook pods
	// whose hook names no ServiceAccount of its own.
	ServiceAccountHook = "scan-completion-hook"
	// ResultsDir is where a scanner writes its result: a volume it shares with the lurker.
	ResultsDir = "/home/securecodebox/"
	// FindingsFile is the object name of a Scan's findings.
	FindingsFile = "findings.json"
)
