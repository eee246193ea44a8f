// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of what the operator puts into the pods of a Scan. Settings may not change these.
const (
	// ContainerLurker is the container beside the scanner that uploads the result.
	ContainerLurker = "lurker"
	// ContainerParser is the container that makes findings of the raw result, in a pod of its own or in the scanner's.
	ContainerParser = "parser"

	// VolumeResults is what scanner and lurker share.
	VolumeResults = "scan-results"
	// VolumeCACertificate holds the certificate that containers have to trust.
	VolumeCACertificate = "ca-certificate"
	// VolumeLurkerToken holds the token with which the lurker watches its own pod.
	VolumeLurkerToken = "lurker-token" //nolint:gosec // G101: the name of a volume
	// VolumeUploadToken holds the token with which the lurker asks for a fresh upload URL.
	VolumeUploadToken = "lurker-upload-token" //nolint:gosec // G101: the name of a volume
	// VolumeHandoff is what lurker and parser share where the parser runs in the scanner's pod: by it the lurker says
	// that the scanner has ended. The scanner does not have it.
	VolumeHandoff = "scanyard-handoff"
	// VolumeNoToken is the empty volume that hides the token of the pod from the scanner.
	VolumeNoToken = "scanyard-no-token" //nolint:gosec // G101: the name of a volume

	// EnvNamespace and EnvScanName tell the image of a parser or hook its Scan.
	EnvNamespace = "NAMESPACE"
	// EnvScanName is described with EnvNamespace.
	EnvScanName = "SCAN_NAME"
	// EnvHookName tells two hooks that run the same image from each other.
	EnvHookName = "HOOK_NAME"
	// EnvPreviousFindings lets a hook tell what is new.
	EnvPreviousFindings = "PREVIOUS_FINDINGS_URL"
	// EnvOutputs is where a hook may write what its spec.outputs name.
	EnvOutputs = "OUTPUT_URLS"
)

// IsFused reports whether the Job of a scanner runs the parser as well.
func IsFused(job metav1.Object) bool {
	return job.GetAnnotations()[AnnotationPhases] == string(PhasesFused)
}

// IsFusedPod reports whether a pod runs the parser beside the scanner. A container of others may be called like the parser.
func IsFusedPod(p *corev1.Pod) bool {
	both := p.Labels[LabelReports] != "" && p.Labels[LabelPhase] == PhaseScanner
	return both && slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == ContainerParser }) > 0
}
