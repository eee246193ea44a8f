// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceMode says which family of kinds a Scan uses.
// +kubebuilder:validation:Enum=namespaceLocal;clusterWide
type ResourceMode string

const (
	// NamespaceLocal uses ScanType, ParseDefinition and ScanCompletionHook of the Scan's namespace.
	NamespaceLocal ResourceMode = "namespaceLocal"
	// ClusterWide uses ClusterScanType, ClusterParseDefinition and ClusterScanCompletionHook.
	ClusterWide ResourceMode = "clusterWide"
)

// ScanSpec says what to scan, with which scanner, and how its pods run. It may have 256 KiB in all.
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || self.parameters.map(p, size(p)).sum() <= 131072",message="parameters may have 128 KiB together: put large inputs into a ConfigMap or Secret and mount it"
// +kubebuilder:validation:XValidation:rule="!has(self.env) || self.env.map(e, has(e.value) ? size(e.value) : 0).sum() <= 65536",message="values of env may have 64 KiB together: put large inputs into a ConfigMap or Secret and mount it"
// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || self.initContainers.map(c, (has(c.command) ? c.command.map(p, size(p)).sum() : 0) + (has(c.args) ? c.args.map(p, size(p)).sum() : 0) + (has(c.env) ? c.env.map(e, has(e.value) ? size(e.value) : 0).sum() : 0)).sum() <= 131072",message="command, args and values of env of initContainers may have 128 KiB together: put large inputs into a ConfigMap or Secret and mount it"
type ScanSpec struct {
	// scanType is the name of the ScanType, or of the ClusterScanType where
	// resourceMode is clusterWide. Example: "nmap".
	// +required
	// +kubebuilder:validation:MaxLength=253
	ScanType string `json:"scanType"`

	// parameters are appended to the command of the scanner, one element per
	// argument; no shell is involved. May be empty.
	// +required
	// +kubebuilder:validation:MaxItems=8192
	// +kubebuilder:validation:items:MaxLength=65536
	Parameters []string `json:"parameters"`

	// resourceMode chooses the family of ScanType, ParseDefinition and hooks:
	// namespaceLocal uses those of the Scan's namespace only, clusterWide uses the
	// Cluster* kinds only. The two are never mixed. The Jobs run in the Scan's
	// namespace in both modes.
	// +optional
	// +kubebuilder:default=namespaceLocal
	ResourceMode *ResourceMode `json:"resourceMode,omitempty"`

	// hookSelector selects the hooks that run for this Scan by their labels.
	// Absent or empty selects all.
	// +optional
	HookSelector *metav1.LabelSelector `json:"hookSelector,omitempty"`

	// env is appended to the environment of the scanner container.
	// +optional
	// +kubebuilder:validation:MaxItems=512
	Env []corev1.EnvVar `json:"env,omitempty"`

	// volumes are appended to the volumes of the scanner pod.
	// +optional
	// +kubebuilder:validation:MaxItems=128
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// volumeMounts are appended to the mounts of the scanner container.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// initContainers are appended to the init containers of the scanner pod.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	InitContainers []corev1.Container `json:"initContainers,omitempty"`

	// nodeSelector is merged into the node selector of all pods of the Scan; where
	// both have a key, this one wins.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity replaces the affinity of all pods of the Scan. An empty object clears it.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// tolerations replace the tolerations of all pods of the Scan. An empty list clears them.
	// +optional
	// +kubebuilder:validation:MaxItems=128
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// cascades lets findings of this Scan start further Scans. Absent: they do not.
	// +optional
	Cascades *CascadeSpec `json:"cascades,omitempty"`

	// resources replace the resources of the scanner container as a whole.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// ttlSecondsAfterFinished deletes the Scan, with its Jobs and stored results,
	// this many seconds after status.finishedAt. Absent: it is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// suspend keeps the Scan from going on: no further Job is started, Jobs that run
	// go on to their end. Setting it back to false goes on where the Scan stood.
	// A suspended Scan can be deleted.
	// +optional
	// +kubebuilder:default=false
	Suspend *bool `json:"suspend,omitempty"`

	// priority orders the Scans of a namespace while they wait for their turn: higher ones
	// start first, equal ones in the order of their creation. It counts where the settings
	// of the namespace say so (spec.queue.order: Priority), never between namespaces, and
	// never stops a Scan that has begun. A change takes effect while the Scan waits.
	// An addition to the secureCodeBox contract.
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// cancel ends the Scan for good, wherever it stands: what runs is stopped, the state
	// becomes Errored, and the condition Cancelled says who asked for it. Hooks for
	// failures do not run. A Scan that has ended stays as it is.
	// An addition to the secureCodeBox contract.
	// +optional
	Cancel *bool `json:"cancel,omitempty"`

	// deadlines bound each phase of the Scan. Absent: the operator's defaults.
	// An addition to the secureCodeBox contract.
	// +optional
	Deadlines *Deadlines `json:"deadlines,omitempty"`
}

// Deadlines bound the phases of a Scan, in seconds. A phase that passes its
// deadline is stopped and the Scan becomes Errored, with a condition that names
// the phase. A deadline that passes while the Scan is suspended takes effect when the
// Scan goes on.
type Deadlines struct {
	// startSeconds bounds how long the pod of any phase may take from the creation
	// of its Job until all its containers have started: image pulls and scheduling.
	// A Job that is itself suspended, as Kueue does, is bounded by its phase only.
	// +optional
	// +kubebuilder:validation:Minimum=1
	StartSeconds *int64 `json:"startSeconds,omitempty"`

	// scannerSeconds bounds the scanner Job, retries included.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ScannerSeconds *int64 `json:"scannerSeconds,omitempty"`

	// parserSeconds bounds the parser Job, retries included.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ParserSeconds *int64 `json:"parserSeconds,omitempty"`

	// hookSeconds bounds each hook Job, retries included.
	// +optional
	// +kubebuilder:validation:Minimum=1
	HookSeconds *int64 `json:"hookSeconds,omitempty"`
}

// CascadeSpec selects the cascading rules that may start further Scans from the
// findings of this one, and says what those Scans inherit.
type CascadeSpec struct {
	// scopeLimiter bounds which findings may cascade.
	// +optional
	ScopeLimiter *ScopeLimiter `json:"scopeLimiter,omitempty"`

	// inheritLabels gives child Scans the labels of this Scan.
	// +optional
	// +kubebuilder:default=true
	InheritLabels *bool `json:"inheritLabels,omitempty"`

	// inheritAnnotations gives child Scans the annotations of this Scan.
	// +optional
	// +kubebuilder:default=true
	InheritAnnotations *bool `json:"inheritAnnotations,omitempty"`

	// inheritEnv gives child Scans spec.env of this Scan.
	// +optional
	// +kubebuilder:default=false
	InheritEnv *bool `json:"inheritEnv,omitempty"`

	// inheritVolumes gives child Scans spec.volumes and spec.volumeMounts of this Scan.
	// +optional
	// +kubebuilder:default=false
	InheritVolumes *bool `json:"inheritVolumes,omitempty"`

	// inheritInitContainers gives child Scans spec.initContainers of this Scan.
	// +optional
	// +kubebuilder:default=false
	InheritInitContainers *bool `json:"inheritInitContainers,omitempty"`

	// inheritHookSelector gives child Scans spec.hookSelector of this Scan.
	// +optional
	// +kubebuilder:default=false
	InheritHookSelector *bool `json:"inheritHookSelector,omitempty"`

	// inheritAffinity gives child Scans spec.affinity of this Scan.
	// +optional
	// +kubebuilder:default=true
	InheritAffinity *bool `json:"inheritAffinity,omitempty"`

	// inheritTolerations gives child Scans spec.tolerations of this Scan.
	// +optional
	// +kubebuilder:default=true
	InheritTolerations *bool `json:"inheritTolerations,omitempty"`

	// inheritNodeSelector gives child Scans spec.nodeSelector of this Scan, with that of
	// the rule merged over it. Absent or false: child Scans have none, whatever the rule says.
	// An addition to the secureCodeBox contract.
	// +optional
	InheritNodeSelector *bool `json:"inheritNodeSelector,omitempty"`

	// inheritResources gives child Scans spec.resources of the rule, or else of this Scan.
	// Absent or false: child Scans have none, whatever the rule says.
	// An addition to the secureCodeBox contract.
	// +optional
	InheritResources *bool `json:"inheritResources,omitempty"`

	// inheritTTLSecondsAfterFinished gives child Scans spec.ttlSecondsAfterFinished of the
	// rule, or else of this Scan. Absent or false: child Scans are kept, whatever the rule says.
	// A child is deleted with its parent in any case.
	// An addition to the secureCodeBox contract.
	// +optional
	InheritTTLSecondsAfterFinished *bool `json:"inheritTTLSecondsAfterFinished,omitempty"`

	// deduplicate starts equal child Scans once in the whole chain: those with the same
	// spec, labels and annotations, whichever finding, rule and parent they come from.
	// Absent or false: every match starts a Scan.
	// An addition to the secureCodeBox contract.
	// +optional
	Deduplicate *bool `json:"deduplicate,omitempty"`

	// maxDepth is how many rules may follow one another: 1 lets this Scan start others,
	// which start none. Absent: only that no rule is used twice in a chain bounds it.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxDepth *int32 `json:"maxDepth,omitempty"`

	// maxScans is how many Scans there may be below the first Scan of a chain, at all
	// depths together. Those that would be more are not started; the hook's log says which.
	// Absent: no bound on the chain, and the hook's on what one Scan starts, which is 1000
	// unless its CASCADE_MAX_CHILDREN says otherwise.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxScans *int32 `json:"maxScans,omitempty"`

	// matchLabels selects cascading rules by label; all must match.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// matchExpressions selects cascading rules by label expressions; all must match.
	// +optional
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// ScopeLimiter bounds which findings may cascade. A finding is in scope when all of
// allOf, at least one of anyOf and none of noneOf hold; an empty list holds.
type ScopeLimiter struct {
	// validOnMissingRender is what a requirement yields when one of its values
	// cannot be rendered from the finding.
	// +optional
	// +kubebuilder:default=false
	ValidOnMissingRender *bool `json:"validOnMissingRender,omitempty"`

	// strict refuses what would pass in silence otherwise: a finding from which a value of
	// noneOf cannot be rendered, an address of another family than the network of InCIDR or
	// NotInCIDR, and a requirement without values. The annotation may then hold several
	// networks, separated by commas.
	// An addition to the secureCodeBox contract.
	// +optional
	Strict *bool `json:"strict,omitempty"`

	// anyOf holds when at least one requirement does.
	// +optional
	AnyOf []ScopeLimiterRequirement `json:"anyOf,omitempty"`

	// allOf holds when every requirement does.
	// +optional
	AllOf []ScopeLimiterRequirement `json:"allOf,omitempty"`

	// noneOf holds when no requirement does.
	// +optional
	NoneOf []ScopeLimiterRequirement `json:"noneOf,omitempty"`
}

// ScopeLimiterRequirement compares an annotation of the Scan with values rendered
// from the finding.
type ScopeLimiterRequirement struct {
	// key is the annotation of the Scan to compare; it starts with
	// "scope.cascading.securecodebox.io/".
	// +required
	Key string `json:"key"`

	// operator is one of In, NotIn, Contains, DoesNotContain, InCIDR, NotInCIDR,
	// SubdomainOf, NotSubdomainOf.
	// +required
	Operator string `json:"operator"`

	// values are mustache templates rendered from the finding.
	// +required
	Values []string `json:"values"`
}

// ScanState is the place of a Scan in its life, as clients of secureCodeBox read it.
type ScanState string

const (
	// ScanStateNew is a Scan that has not been started. It has no state on the wire.
	ScanStateNew ScanState = ""
	// ScanStateScanning means the scanner Job was created.
	ScanStateScanning ScanState = "Scanning"
	// ScanStateScanCompleted means the raw result is stored; the parser is about to start.
	ScanStateScanCompleted ScanState = "ScanCompleted"
	// ScanStateParsing means the parser Job was created.
	ScanStateParsing ScanState = "Parsing"
	// ScanStateParseCompleted means the findings are stored; hooks are about to be chosen.
	ScanStateParseCompleted ScanState = "ParseCompleted"
	// ScanStateHookProcessing means hooks run.
	ScanStateHookProcessing ScanState = "HookProcessing"
	// ScanStateDone means everything went well. Final.
	ScanStateDone ScanState = "Done"
	// ScanStateErrored means the Scan ended before its time; status.errorDescription
	// and the conditions say why. Final.
	ScanStateErrored ScanState = "Errored"
)

// States that old versions of secureCodeBox wrote. They are read as HookProcessing.
const (
	ScanStateLegacyReadAndWriteHookProcessing ScanState = "ReadAndWriteHookProcessing"
	ScanStateLegacyReadAndWriteHookCompleted  ScanState = "ReadAndWriteHookCompleted"
	ScanStateLegacyReadOnlyHookProcessing     ScanState = "ReadOnlyHookProcessing"
)

// Types of the conditions of a Scan.
const (
	// ConditionReady is True when the Scan is Done, False when it is Errored and
	// Unknown while it is on its way; its message says what it does or waits for.
	ConditionReady = "Ready"
	// ConditionStalled is True when the Scan is Errored, with the reason and the message of Ready; other
	// Scans have none. Tools that wait by kstatus (Flux, Helm, kpt) take Ready=False for "in progress" and
	// this for "failed".
	ConditionStalled = "Stalled"
	// ConditionScanned is True when the raw result is stored.
	ConditionScanned = "Scanned"
	// ConditionParsed is True when the findings are stored.
	ConditionParsed = "Parsed"
	// ConditionHooksCompleted is True when every hook has run.
	ConditionHooksCompleted = "HooksCompleted"
	// ConditionAdmitted is False while the Scan waits for its turn; the reason names the
	// limit, the message the place in the queue. It becomes True when the Scan starts. Scans
	// that never had to wait may have none.
	ConditionAdmitted = "Admitted"
	// ConditionCancelled is True when spec.cancel has ended the Scan, and False when
	// spec.cancel was set on a Scan that had ended.
	ConditionCancelled = "Cancelled"
	// ConditionRerun tells of the annotation scanyard.io/rerun: True when what it asks
	// for was started or done, False when it was refused.
	ConditionRerun = "Rerun"
	// ConditionCascadingRulesMatched is False where hooks that write findings may have taken
	// away what cascading rules need. The hook cascading-scans tells it, where it has to.
	ConditionCascadingRulesMatched = "CascadingRulesMatched"
	// ConditionTargetReached is True when the scanner reached at least one of its targets,
	// False when it reached none, so that no finding means nothing, and Unknown when its
	// result does not tell. Scans whose parser does not say it have none.
	ConditionTargetReached = "TargetReached"
	// ConditionExceptionsApplied is False where the parser could not read the exceptions that hold for
	// the Scan: its status counts all findings as open. Scans without exceptions have none.
	ConditionExceptionsApplied = "ExceptionsApplied"
	// ConditionForwarded is True when every sink has the results, Unknown while they are sent, and
	// False while the worst sink does not take them; the reason is that sink's. Scans of namespaces
	// without sinks have none. The forwarder writes it.
	ConditionForwarded = "Forwarded"
	// ConditionResultsStored is False when the results were removed from the cluster after they were
	// forwarded, and True while they could be and are kept. Other Scans have none.
	ConditionResultsStored = "ResultsStored"
)

// ConditionOrder returns the types of conditions in the order in which everybody writes them, so that equal conditions are
// equal on the wire and writers do not undo each other.
func ConditionOrder() []string {
	return []string{
		ConditionReady, ConditionStalled, ConditionAdmitted, ConditionScanned, ConditionParsed, ConditionTargetReached, ConditionHooksCompleted,
		ConditionExceptionsApplied, ConditionCancelled, ConditionRerun, ConditionForwarded, ConditionResultsStored,
	}
}

// Reasons of the conditions of a Scan.
const (
	// ReasonCompleted is set when the Scan, or the phase, has ended well.
	ReasonCompleted = "Completed"
	// ReasonExceptionsApplied is set when the parser has counted by the exceptions that hold.
	ReasonExceptionsApplied = "Applied"
	// ReasonExceptionsUnreadable is set when the parser could not read them; the message says why.
	// Findings are marked nevertheless wherever they are shown.
	ReasonExceptionsUnreadable = "ExceptionsUnreadable"
	// ReasonRunning is set when the Job of a phase was created and nothing is known to
	// keep it from getting on.
	ReasonRunning = "Running"
	// ReasonSuspended is set while spec.suspend keeps the Scan from going on; set it
	// to false to go on.
	ReasonSuspended = "Suspended"
	// ReasonScanTypeNotFound is set while, and after, no ScanType of that name was
	// found. The message says what to install.
	ReasonScanTypeNotFound = "ScanTypeNotFound"
	// ReasonParseDefinitionNotFound is set while, and after, no ParseDefinition for the
	// result type was found. The message says what to install.
	ReasonParseDefinitionNotFound = "ParseDefinitionNotFound"
	// ReasonInvalidSpec is set when the Scan itself can never run; the message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonInvalidScanType is set when the ScanType can never run; the message names the field.
	ReasonInvalidScanType = "InvalidScanType"
	// ReasonInvalidHook is set when a selected hook can never run; the message names it.
	ReasonInvalidHook = "InvalidHook"
	// ReasonHookNotFound is set when a selected hook was deleted before it ran.
	ReasonHookNotFound = "HookNotFound"
	// ReasonJobRejected is set when the API server refuses a Job of the Scan for good:
	// invalid after merging ScanType and Scan, or denied by admission. The message has its answer.
	ReasonJobRejected = "JobRejected"
	// ReasonQuotaExceeded is set while a ResourceQuota keeps a Job or its pods from being created.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonImagePull is set while an image cannot be pulled. Check its name and pull secrets.
	ReasonImagePull = "ImagePullFailed"
	// ReasonContainerConfig is set while a container cannot be created, as for a missing Secret.
	ReasonContainerConfig = "ContainerConfigError"
	// ReasonUnschedulable is set while no node takes a pod; the message is the scheduler's.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPodRejected is set while the pods of a Job cannot be created, as by Pod Security.
	ReasonPodRejected = "PodRejected"
	// ReasonContainerFailing is set while a container of a pod fails and is restarted.
	ReasonContainerFailing = "ContainerFailing"
	// ReasonJobSuspended is set while a Job is suspended by its ScanType or a queue such as Kueue.
	ReasonJobSuspended = "JobSuspended"
	// ReasonQueued is set, on the conditions Ready and Scanned, while the Scan waits for its
	// turn; the condition Admitted says which limit it waits for.
	ReasonQueued = "Queued"
	// ReasonClusterLimit is set while the cluster runs as many Scans as it may.
	ReasonClusterLimit = "ClusterLimit"
	// ReasonNamespaceLimit is set while the Scan's namespace runs as many Scans as it may.
	ReasonNamespaceLimit = "NamespaceLimit"
	// ReasonScanTypeLimit is set while as many Scans of its scan type run as may.
	ReasonScanTypeLimit = "ScanTypeLimit"
	// ReasonTargetLimit is set while as many Scans with its value of a label run as may.
	ReasonTargetLimit = "TargetLimit"
	// ReasonAdmitted is set when a Scan that had to wait has started.
	ReasonAdmitted = "Admitted"
	// ReasonWaitedLongest is set when a Scan has started ahead of others, since it had waited
	// for more than an hour and longer than any other.
	ReasonWaitedLongest = "WaitedLongest"
	// ReasonErrored is set when another operator has ended the Scan with an error.
	ReasonErrored = "Errored"
	// ReasonScannerFailed is set when the scanner Job failed; see the logs of its pods.
	ReasonScannerFailed = "ScannerFailed"
	// ReasonParserFailed is set when the parser Job failed; see the logs of its pods.
	ReasonParserFailed = "ParserFailed"
	// ReasonHookFailed is set when a hook Job failed; the message names the hook.
	ReasonHookFailed = "HookFailed"
	// ReasonCancelledByUser is set when spec.cancel has ended the Scan.
	ReasonCancelledByUser = "CancelledByUser"
	// ReasonAlreadyEnded is set when spec.cancel was set on a Scan that had ended.
	ReasonAlreadyEnded = "AlreadyEnded"
	// ReasonRerunStarted is set when a phase runs again as the annotation
	// scanyard.io/rerun asks.
	ReasonRerunStarted = "RerunStarted"
	// ReasonRerunWaits is set while a re-run waits for pods of the run before to end.
	ReasonRerunWaits = "RerunWaits"
	// ReasonLinksWritten is set when the annotation scanyard.io/rerun has asked for
	// fresh download links and the status has them.
	ReasonLinksWritten = "LinksWritten"
	// ReasonRerunRefused means that the annotation scanyard.io/rerun asks for what this
	// Scan cannot do.
	ReasonRerunRefused = "RerunRefused"
	// ReasonJobLost is set when a Job was removed before its outcome was seen and no
	// stored result shows that it had ended well.
	ReasonJobLost = "JobLost"
	// ReasonNotAllowed is set when a Scan, or a kind of its namespace that it uses, asks for what
	// the settings do not allow; the message names the field and what is allowed.
	ReasonNotAllowed = "NotAllowed"
	// ReasonPatchFailed is set when an entry of jobPatches of the settings cannot be applied to a
	// Job; the message names the entry and its line. Correct it, then start the Scan again.
	ReasonPatchFailed = "PatchFailed"
	// ReasonForwarding is set on the condition Ready while the hooks have run and, as failurePolicy: Fail of the settings
	// asks, the Scan waits until every sink has its results.
	ReasonForwarding = "Forwarding"
	// ReasonForwardingFailed is set when that took longer than failAfterSeconds. Correct what the condition Forwarded names;
	// the results are still sent then, and the Scan stays Errored.
	ReasonForwardingFailed = "ForwardingFailed"
	// ReasonHeld is set on the condition Forwarded while the Scan is to be deleted and waits until every sink has its
	// results, or until holdSeconds of the settings have passed. The message says what the sinks wait for.
	ReasonHeld = "Held"
	// ReasonDeletedUnforwarded is that of the Event on a Scan that was deleted before every sink had its results.
	ReasonDeletedUnforwarded = "DeletedUnforwarded"
	// ReasonRemoving is set on the condition ResultsStored while the results are removed, since every sink has them.
	ReasonRemoving = "Removing"
	// ReasonRemovedAfterForwarding is set on the condition ResultsStored when they are. The message says which sinks have
	// them; look there, or run the scanner again.
	ReasonRemovedAfterForwarding = "RemovedAfterForwarding"
	// ReasonForwardingUnhealthy is set on the condition ResultsStored while results that could be removed are kept, since a
	// sink is not healthy. They are removed by themselves when all sinks are.
	ReasonForwardingUnhealthy = "ForwardingUnhealthy"
	// ReasonKeptForComparison is set on the condition ResultsStored of the newest run of a target, which KeepLastRun keeps.
	ReasonKeptForComparison = "KeptForComparison"
	// ReasonKeptRetained is set on the condition ResultsStored where the annotation storage.scanyard.io/on-delete is
	// "retain". Remove the annotation to have the results removed.
	ReasonKeptRetained = "KeptRetained"
	// ReasonKeptUnproved is set on the condition ResultsStored while no sink has proved that it has all records. The
	// message says what is missing.
	ReasonKeptUnproved = "KeptUnproved"
	// ReasonStorageSwitchOff is set on the condition ResultsStored where the settings want results removed and the forwarder
	// may not do so. Install charts/forwarding with forwarder.storageSwitch.enabled=true, or set afterForwarding: Keep.
	ReasonStorageSwitchOff = "StorageSwitchOff"
	// ReasonNameConflict is set when a Job of the needed name exists and belongs to
	// something else. Delete it to go on.
	ReasonNameConflict = "NameConflict"
	// ReasonDeadlineExceeded is set when a phase passed its deadline; the message names it.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonTargetReached is set when the scanner reached at least one of its targets.
	ReasonTargetReached = "Reached"
	// ReasonNothingReached is set when the scanner reached none of its targets; the message
	// says what it tried. Check the name of the target and the way to it.
	ReasonNothingReached = "NothingReached"
	// ReasonReachUnknown is set when the result of the scanner does not tell whether it
	// reached its target.
	ReasonReachUnknown = "NotTold"
	// ReasonStorageUnavailable is set while the operator cannot use object storage; it
	// tries again until it can.
	ReasonStorageUnavailable = "StorageUnavailable"
)

// HookState is the place of one hook in its life.
type HookState string

const (
	// HookStatePending means the hook was selected and has not started.
	HookStatePending HookState = "Pending"
	// HookStateInProgress means the Job of the hook was created.
	HookStateInProgress HookState = "InProgress"
	// HookStateCompleted means the Job of the hook ended well.
	HookStateCompleted HookState = "Completed"
	// HookStateCancelled means the hook never ran, since an earlier one failed.
	HookStateCancelled HookState = "Cancelled"
	// HookStateFailed means the Job of the hook failed.
	HookStateFailed HookState = "Failed"
)

// HookStatus is the place of one selected hook.
type HookStatus struct {
	// hookName is the name of the ScanCompletionHook or ClusterScanCompletionHook.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	HookName string `json:"hookName"`

	// state is one of Pending, InProgress, Completed, Cancelled, Failed.
	// +required
	State HookState `json:"state"`

	// jobName is the name of the hook's Job, once there is one.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	JobName string `json:"jobName,omitempty"`

	// priority is the hook's spec.priority when it was selected.
	// +required
	Priority int `json:"priority"`

	// type is the hook's spec.type when it was selected.
	// +required
	Type HookType `json:"type"`

	// failurePolicy is the hook's spec.failurePolicy when it was selected.
	// An addition to the secureCodeBox contract.
	// +optional
	FailurePolicy HookFailurePolicy `json:"failurePolicy,omitempty"`

	// afterFailure says that the hook runs because the Scan is Errored.
	// An addition to the secureCodeBox contract.
	// +optional
	AfterFailure bool `json:"afterFailure,omitempty"`

	// message says why the hook failed or did not run. It is for people.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// attempt numbers the run of the hook, where the Scan or the hook was run again; all
	// re-runs of a Scan are counted together.
	// An addition to the secureCodeBox contract.
	// +optional
	Attempt int `json:"attempt,omitempty"`
}

// ContainerFailure is how a container of a Job has ended that failed. An addition to the secureCodeBox contract.
type ContainerFailure struct {
	// job is the name of the Job.
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job"`

	// container is the name of the container.
	// +kubebuilder:validation:MaxLength=253
	Container string `json:"container"`

	// exitCode is what the process returned; 128 and a number are the signal that ended it.
	ExitCode int32 `json:"exitCode"`

	// reason is the kubelet's word for it, such as OOMKilled. Absent for Error, which says nothing beyond exitCode.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// message is the end of what the container has said, without addresses' queries and control characters.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// finishedAt is when it ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// QueuePlace is where a Scan stood in the queue when it was last told. The condition Admitted says
// since when it waits, and for what.
type QueuePlace struct {
	// position counts from 1, the Scan that starts next.
	// +required
	Position int `json:"position"`

	// of is how many Scans wait in the cluster.
	// +required
	Of int `json:"of"`

	// namespacePosition is the position among the Scans of the same namespace.
	// +required
	NamespacePosition int `json:"namespacePosition"`

	// namespaceOf is how many Scans wait in the same namespace.
	// +required
	NamespaceOf int `json:"namespaceOf"`
}

// PhaseAttempts number the re-runs of scanner and parser. All re-runs of a Scan are
// counted together, from 2.
type PhaseAttempts struct {
	// scanner is the number of the run whose raw result counts.
	// +optional
	Scanner int `json:"scanner,omitempty"`

	// parser is the number of the run whose findings count.
	// +optional
	Parser int `json:"parser,omitempty"`
}

// FindingSeverities counts findings by severity. A severity without findings is absent.
type FindingSeverities struct {
	// informational counts findings of severity INFORMATIONAL.
	// +optional
	Informational *int64 `json:"informational,omitempty"`
	// low counts findings of severity LOW.
	// +optional
	Low *int64 `json:"low,omitempty"`
	// medium counts findings of severity MEDIUM.
	// +optional
	Medium *int64 `json:"medium,omitempty"`
	// high counts findings of severity HIGH.
	// +optional
	High *int64 `json:"high,omitempty"`
}

// FindingStats counts the findings of a Scan. Parsers and ReadAndWrite hooks write it, or the
// operator does for those that tell it what they have done.
type FindingStats struct {
	// count is the number of findings.
	// +optional
	Count *int64 `json:"count,omitempty"`

	// severities counts findings by severity.
	// +optional
	FindingSeverities FindingSeverities `json:"severities,omitempty"`

	// categories counts findings by category. A Scan without findings has an empty object here, not none: hooks of
	// others look into it without asking.
	// +optional
	FindingCategories map[string]int64 `json:"categories,omitzero"`

	// excepted is the number of findings that exceptions suppressed when the findings were made. Absent where no
	// exception held for the Scan, or the parser is of others.
	// An addition to the secureCodeBox contract.
	// +optional
	Excepted *int64 `json:"excepted,omitempty"`

	// open counts by severity the findings that no exception suppressed; it is there where excepted is.
	// An addition to the secureCodeBox contract.
	// +optional
	Open *FindingSeverities `json:"open,omitempty"`

	// exceptions are those that matched findings, the one with the most findings first, as many as fit.
	// An addition to the secureCodeBox contract.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Exceptions []ExceptionCount `json:"exceptions,omitempty"`
}

// ExceptionCount says how many findings an exception matched.
type ExceptionCount struct {
	// name is the name of the exception.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// kind is FindingException or ClusterFindingException.
	// +required
	// +kubebuilder:validation:Enum=FindingException;ClusterFindingException
	Kind string `json:"kind"`

	// count is the number of findings that it matched.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int64 `json:"count"`
}

// StoredObject says which bytes an object in storage has.
type StoredObject struct {
	// size is their number.
	// +required
	Size int64 `json:"size"`

	// sha256 is their SHA-256 in hexadecimal digits.
	// +required
	SHA256 string `json:"sha256"`
}

// ScanStatus is where a Scan stands. The operator writes it, but for findings,
// which parsers and ReadAndWrite hooks write. Whatever another client removes
// is written again.
type ScanStatus struct {
	// state is one of Scanning, ScanCompleted, Parsing, ParseCompleted,
	// HookProcessing, Done, Errored. A fresh Scan has none.
	// +optional
	State ScanState `json:"state,omitempty"`

	// finishedAt is when the Scan became Done or Errored.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`

	// errorDescription says in one sentence why the Scan is Errored.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	ErrorDescription string `json:"errorDescription,omitempty"`

	// rawResultType is the ScanType's extractResults.type; it is also the name of the
	// ParseDefinition.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	RawResultType string `json:"rawResultType,omitempty"`

	// rawResultFile is the file name of the raw result in storage.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[^/\\\x00-\x1f\x7f]*$`
	// +kubebuilder:validation:XValidation:rule="self != '.' && self != '..'",message="must be a file name"
	RawResultFile string `json:"rawResultFile,omitempty"`

	// findingDownloadLink is a presigned URL to download the findings, valid for seven days.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	FindingDownloadLink string `json:"findingDownloadLink,omitempty"`

	// rawResultDownloadLink is a presigned URL to download the raw result, valid for seven days.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	RawResultDownloadLink string `json:"rawResultDownloadLink,omitempty"`

	// findingHeadLink is a presigned URL for an HTTP HEAD of the findings.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	FindingHeadLink string `json:"findingHeadLink,omitempty"`

	// rawResultHeadLink is a presigned URL for an HTTP HEAD of the raw result.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	RawResultHeadLink string `json:"rawResultHeadLink,omitempty"`

	// scannerLogDownloadLink is a presigned URL to download the end of the scanner's log,
	// valid for seven days. Lurkers of others store none: then there is nothing behind it,
	// and links that are written anew leave it out. An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	ScannerLogDownloadLink string `json:"scannerLogDownloadLink,omitempty"`

	// findings counts the findings.
	// +optional
	Findings FindingStats `json:"findings,omitempty"`

	// storedFindings says which bytes findings.json has, as the parser or the last hook that
	// changes findings has stored them. Hooks and the command line refuse others. Absent
	// where the image that has stored them does not say it.
	// An addition to the secureCodeBox contract.
	// +optional
	StoredFindings *StoredObject `json:"storedFindings,omitempty"`

	// readAndWriteHookStatus was written by old versions of secureCodeBox; it is only read.
	// +optional
	ReadAndWriteHookStatus []HookStatus `json:"readAndWriteHookStatus,omitempty"`

	// orderedHookStatuses are the selected hooks: groups in the order in which they
	// run, and the hooks of a group, which run at the same time.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	OrderedHookStatuses [][]HookStatus `json:"orderedHookStatuses,omitempty"`

	// conditions say for each phase and for the whole (type Ready) how it stands and why.
	// An addition to the secureCodeBox contract.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status speaks of.
	// An addition to the secureCodeBox contract.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastRerun is the value of the annotation scanyard.io/rerun that was acted upon last.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	LastRerun string `json:"lastRerun,omitempty"`

	// attempts number the runs of scanner and parser, where there was more than one. The
	// label scanyard.io/attempt of their Jobs has the same numbers.
	// An addition to the secureCodeBox contract.
	// +optional
	Attempts *PhaseAttempts `json:"attempts,omitempty"`

	// containerFailure is how the container has ended that keeps the Scan from going on, or has ended
	// it. Absent while none has failed, and where its pod was gone before it was seen.
	// An addition to the secureCodeBox contract.
	// +optional
	ContainerFailure *ContainerFailure `json:"containerFailure,omitempty"`

	// queue says where the Scan stands while it waits for its turn.
	// An addition to the secureCodeBox contract.
	// +optional
	Queue *QueuePlace `json:"queue,omitempty"`

	// startedAt is when the scanner Job was created.
	// An addition to the secureCodeBox contract.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// forwarding says how far each sink of the settings has the results. The forwarder writes it and
	// seals each entry: one that somebody else wrote counts as absent, and the results are sent again.
	// An addition to the secureCodeBox contract.
	// +optional
	// +listType=map
	// +listMapKey=sink
	// +kubebuilder:validation:MaxItems=40
	Forwarding []SinkProgress `json:"forwarding,omitempty"`
}

// SinkProgress is how far a sink has the results of a Scan. An addition to the secureCodeBox contract.
type SinkProgress struct {
	// sink is cluster/NAME or NAMESPACE/NAME.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=110
	Sink string `json:"sink"`

	// epoch of the sink in the settings that this was sent for.
	// +optional
	Epoch int32 `json:"epoch,omitempty"`

	// revision is the highest attempt of the Scan's phases and hooks that this was sent of.
	// +optional
	Revision int32 `json:"revision,omitempty"`

	// resend is the annotation forwarding.scanyard.io/resend that this was sent for.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Resend string `json:"resend,omitempty"`

	// etag of the findings that this was sent of.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ETag string `json:"etag,omitempty"`

	// sequence of the last record that the sink has acknowledged.
	// +optional
	Sequence int64 `json:"sequence,omitempty"`

	// offset in the findings behind that record, in bytes.
	// +optional
	Offset int64 `json:"offset,omitempty"`

	// chain is the digest of all records up to that one, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Chain string `json:"chain,omitempty"`

	// records is how many were sent, those included that the sink had already and those that it refused,
	// without the closing one.
	// +optional
	Records int64 `json:"records,omitempty"`

	// deadLetters is how many of them the sink refused.
	// +optional
	DeadLetters int64 `json:"deadLetters,omitempty"`

	// outcomes counts the results up to that record by their outcome, such as FAIL.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	Outcomes map[string]int64 `json:"outcomes,omitempty"`

	// completedAt is when the sink had all.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`

	// verdict is Complete where the sink has proved that it has stored all, and Accepted where it has
	// only acknowledged that.
	// +optional
	Verdict SinkVerdict `json:"verdict,omitempty"`

	// seal is a digest over the other fields and the Scan's UID, by a key of the forwarder.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Seal string `json:"seal,omitempty"`
}

// SinkVerdict is what a sink's acknowledgement of a whole Scan is worth.
// +kubebuilder:validation:Enum=Complete;Accepted
type SinkVerdict string

const (
	// VerdictComplete is set when the sink has proved that it has stored all.
	VerdictComplete SinkVerdict = "Complete"
	// VerdictAccepted is set when the sink has acknowledged all.
	VerdictAccepted SinkVerdict = "Accepted"
)

// Scan is one run of a scanner: its raw result is stored, parsed into findings, and
// handed to the selected hooks.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=.status.state
// +kubebuilder:resource:path=scans,singular=scan,scope=Namespaced,categories=scanyard
// +kubebuilder:printcolumn:name="UID",type=string,JSONPath=`.metadata.uid`,description="K8s Resource UID",priority=1
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.scanType`,description="Scan Type"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`,description="Scan State"
// +kubebuilder:printcolumn:name="Findings",type=string,JSONPath=`.status.findings.count`,description="Total Finding Count"
// +kubebuilder:printcolumn:name="Parameters",type=string,JSONPath=`.spec.parameters`,description="Arguments passed to the Scanner",priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why the Scan is where it is"
// +kubebuilder:printcolumn:name="Reached",type=string,JSONPath=`.status.conditions[?(@.type=="TargetReached")].status`,description="Whether the scanner reached its target",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Scan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what to scan. A Scan without it ends Errored.
	// +optional
	Spec ScanSpec `json:"spec,omitempty"`
	// status is where the Scan stands.
	// +optional
	Status ScanStatus `json:"status,omitempty"`
}

// ScanList is a list of Scans.
// +kubebuilder:object:root=true
type ScanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Scan `json:"items"`
}

// Mode returns the family of kinds that the Scan uses; absent means NamespaceLocal.
func (s *Scan) Mode() ResourceMode {
	if s.Spec.ResourceMode == nil || *s.Spec.ResourceMode == "" {
		return NamespaceLocal
	}
	return *s.Spec.ResourceMode
}

// Settled says whether the Scan has reached a final state.
func (s *Scan) Settled() bool {
	return s.Status.State == ScanStateDone || s.Status.State == ScanStateErrored
}

// Cancelled says whether somebody has asked for the end of the Scan.
func (s *Scan) Cancelled() bool { return s.Spec.Cancel != nil && *s.Spec.Cancel }

// Revision is the number of the run that the results of the Scan are of: the highest attempt of its scanner, parser and
// hooks, at least 1.
func (s *Scan) Revision() int32 {
	highest := 1
	if a := s.Status.Attempts; a != nil {
		highest = max(highest, a.Scanner, a.Parser)
	}
	for _, group := range s.Status.OrderedHookStatuses {
		for i := range group {
			highest = max(highest, group[i].Attempt)
		}
	}
	return int32(min(highest, math.MaxInt32))
}

// Released says whether the results of the present run were removed after they were forwarded.
func (s *Scan) Released() bool {
	return s.Annotations[AnnotationReleased] == strconv.Itoa(int(s.Revision()))
}

// ScannerAttempt is the number of the run of the scanner that counts, from 1.
func (s *Scan) ScannerAttempt() int {
	if a := s.Status.Attempts; a != nil {
		return max(a.Scanner, 1)
	}
	return 1
}
