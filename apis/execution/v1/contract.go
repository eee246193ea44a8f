// SPDX-License-Identifier: Apache-2.0

package v1

// Labels and annotations that the operator sets on the objects of a Scan.
// Those below securecodebox.io are the wire contract: NetworkPolicies, log
// collectors and other operators select by them.
const (
	// LabelJobType tells which phase of a Scan a Job runs; one of the JobType values.
	LabelJobType = "securecodebox.io/job-type"
	// LabelHookName names the hook that a hook Job runs. Names that are not valid
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
	// LabelTarget on a Scan names what it scans, for hooks that tell what is new: Scans of
	// one scan type with the same value are compared, whatever their parameters.
	LabelTarget = "scanyard.io/target"
	// LabelManagedBy is the usual label; pods of Scans carry ManagedBy as its value.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy on the pods of Scans.
	ManagedBy = "securecodebox"
	// LabelPhase on the pods of a Scan tells what they do: PhaseScanner, PhaseParser or
	// PhaseHook. NetworkPolicies select by it; a label of the Scan cannot replace it.
	LabelPhase = "scanyard.io/phase"
	// PhaseScanner is the value of LabelPhase of pods with the scanner and the lurker.
	PhaseScanner = "scanner"
	// PhaseParser is the value of LabelPhase of pods of parsers.
	PhaseParser = "parser"
	// PhaseHook is the value of LabelPhase of pods of hooks.
	PhaseHook = "hook"
	// AnnotationDiscoveryIgnore keeps auto-discovery from scanning the pods of Scans.
	AnnotationDiscoveryIgnore = "auto-discovery.securecodebox.io/ignore"
	// AnnotationIstioInject is Istio's switch for its sidecar; without it a Job's pod
	// would never finish in a namespace with injection.
	AnnotationIstioInject = "sidecar.istio.io/inject"
	// AnnotationOnDelete on a Scan says what becomes of its stored results when the
	// Scan is deleted: OnDeleteRetain keeps them, anything else removes them.
	AnnotationOnDelete = "storage.scanyard.io/on-delete"
	// AnnotationStoragePlace on a Scan says where its results lie, if not where the operator's
	// own settings say. The operator writes it when it takes the Scan up.
	AnnotationStoragePlace = "storage.scanyard.io/place"
	// AnnotationReleased on a Scan names the revision whose results were removed after they were forwarded. The operator
	// writes it before it removes anything, and takes it away when the Scan begins anew.
	AnnotationReleased = "storage.scanyard.io/released"
	// AnnotationResend on a Scan sends its results again to all sinks, once for each new value.
	AnnotationResend = "forwarding.scanyard.io/resend"
	// AnnotationRerun on a Scan that has ended asks to run a part of it again: "scanner",
	// "parser" over the stored raw result, "hooks" for those that failed or were
	// cancelled, "hook/NAME" for one. "links" asks for fresh download links in the status.
	// Whatever follows an @ only makes the value a new one: "hooks@2",
	// "hook/notify@2026-11-21T10:00:00Z". The same annotation on a Job is the value that
	// the Job was made for.
	AnnotationRerun = "scanyard.io/rerun"
	// AnnotationRawResultFile and AnnotationRawResultType on the Jobs of a Scan say how its raw
	// result is called in storage and of which type it is. The operator writes them when it
	// makes the scanner Job: the ScanType may change later, and pods may write the status.
	AnnotationRawResultFile = "scanyard.io/raw-result-file"
	// AnnotationRawResultType is described with AnnotationRawResultFile.
	AnnotationRawResultType = "scanyard.io/raw-result-type"
	// AnnotationScanAccess on the Job of a parser or hook is the spec.scanAccess that it was
	// made with, where that is not API.
	AnnotationScanAccess = "scanyard.io/scan-access"
	// AnnotationPhases on the Job of a scanner is PhasesFused if the parser runs in its pod.
	AnnotationPhases = "scanyard.io/phases"
	// LabelReports is on the pods whose termination message the operator reads, with the value "true".
	LabelReports = "scanyard.io/reports"
	// AnnotationHooks on a parser Job names the hooks that ran on success when it was made, with
	// commas between them: an operator that is started sees by them that all have run.
	AnnotationHooks = "scanyard.io/hooks"
	// AnnotationRecord on a Scan is what its Jobs do not show, or not for ever, of what has
	// happened to it, as JSON. The operator writes it when it takes the Scan up, and where a Job
	// goes by its TTL: pods cannot write annotations, and what they write into the status is
	// not believed.
	AnnotationRecord = "scanyard.io/record"
	// LabelKueueQueue on a Scan names the queue of Kueue that its Jobs wait in. Where Kueue is
	// installed, the operator's own queue lets such a Scan pass.
	LabelKueueQueue = "kueue.x-k8s.io/queue-name"
	// LabelAttempt is the number of the run that a Job belongs to, on Jobs of re-runs.
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

// FinalizerDelivery holds a Scan until every sink of the settings has its results, for as long as the settings say. The
// operator sets it together with its own, where there are sinks, and removes it.
const FinalizerDelivery = "forwarding.scanyard.io/delivery"

// Names that scan pods and their charts rely on.
const (
	// ServiceAccountLurker is the ServiceAccount, Role and RoleBinding of scanner pods.
	ServiceAccountLurker = "lurker"
	// ServiceAccountParser is the ServiceAccount, Role and RoleBinding of parser pods in
	// secureCodeBox. Ours run as an account of their Scan, unless accounts are shared.
	ServiceAccountParser = "parser"
	// ServiceAccountHook is the same of hook pods
	// whose hook names no ServiceAccount of its own.
	ServiceAccountHook = "scan-completion-hook"
	// ResultsDir is where a scanner writes its result: a volume it shares with the lurker.
	ResultsDir = "/home/securecodebox/"
	// FindingsFile is the object name of a Scan's findings.
	FindingsFile = "findings.json"
	// ScannerLogFile is the object name of the end of the scanner's log. An addition to
	// the contract: only our lurker stores it.
	ScannerLogFile = "scanyard-scanner.log"
)
