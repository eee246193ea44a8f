// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"errors"
	"fmt"
	"path"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// ErrNoContainer says that a ScanType has no container to run.
var ErrNoContainer = errors.New("spec.jobTemplate.spec.template.spec.containers is empty: a ScanType needs a scanner container")

// Scanner is the input from which a scanner Job is built.
type Scanner struct {
	Scan     *executionv1.Scan
	ScanType *executionv1.ScanTypeSpec
	// UploadURL is the presigned PUT of the raw result.
	UploadURL string
	// LogUploadURL is the presigned PUT of the end of the scanner's log; "" if the log is not kept.
	LogUploadURL string
	Attempt      int
	// Rerun is the annotation that asked for this run; "" in the first run.
	Rerun string
	// NoAccount says that no account was made for the parser of the Scan, because the parser gets a Handover.
	NoAccount bool
	// Parser is the parser that runs in the same pod; nil where it has a pod of its own, see Separate.
	Parser *Parser
}

// ScannerName returns the name of the scanner Job of a Scan.
func ScannerName(scan *executionv1.Scan, attempt int) string {
	return names.Job("scan-"+scan.Name, scan.UID, executionv1.JobTypeScanner, attempt)
}

// NewScanner builds the Job that runs the scanner and, beside it, the lurker and perhaps the parser.
func NewScanner(in Scanner, cfg Config) (*batchv1.Job, error) {
	template := in.ScanType.JobTemplate.DeepCopy()
	if len(template.Spec.Template.Spec.Containers) == 0 {
		return nil, ErrNoContainer
	}
	scan := in.Scan.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:            ScannerName(scan, in.Attempt),
			Namespace:       scan.Namespace,
			Labels:          overlay(scan.Labels, map[string]string{executionv1.LabelJobType: executionv1.JobTypeScanner}),
			OwnerReferences: ownedBy(scan),
		},
		Spec: template.Spec,
	}
	pod := &job.Spec.Template
	pod.ObjectMeta = metav1.ObjectMeta{
		Labels: overlay(overlay(pod.Labels, scan.Labels), map[string]string{
			executionv1.LabelManagedBy: executionv1.ManagedBy, executionv1.LabelPhase: executionv1.PhaseScanner,
		}),
		// The annotations of the pod template are kept; secureCodeBox drops them.
		Annotations: overlay(overlay(pod.Annotations, template.Annotations), podAnnotations(cfg)),
	}
	number(job, in.Attempt, in.Rerun)
	ResultOf(in.ScanType).note(job)
	if in.NoAccount {
		(&Handover{}).mark(job)
	}
	queueJobOnly(job, scan)
	addScanner(&pod.Spec, scan, cfg)
	if in.Parser != nil {
		addParser(job, in.Parser, in.ScanType.ExtractResults.Location, cfg)
	}
	addLurker(&pod.Spec, in, cfg)
	fallBackToLogs(&pod.Spec)
	cfg.Additions.add(&pod.Spec, cfg.CustomCA)
	return job, nil
}

// addScanner merges the fields of the Scan into the pod of the ScanType.
func addScanner(pod *corev1.PodSpec, scan *executionv1.Scan, cfg Config) {
	// Volumes of the template are kept even where the scanner container mounts none:
	// init containers and further containers may need them.
	pod.Volumes = append(pod.Volumes, corev1.Volume{
		Name:         executionv1.VolumeResults,
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
	if cfg.CustomCA.set() {
		pod.Volumes = append(pod.Volumes, cfg.CustomCA.caVolume())
	}
	pod.Volumes = append(pod.Volumes, scan.Spec.Volumes...)

	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: executionv1.VolumeResults, MountPath: executionv1.ResultsDir})
	c.VolumeMounts = append(c.VolumeMounts, scan.Spec.VolumeMounts...)
	c.Command = append(c.Command, scan.Spec.Parameters...)
	c.Args = nil
	c.Env = append(c.Env, scan.Spec.Env...)
	if len(scan.Spec.Resources.Requests) > 0 || len(scan.Spec.Resources.Limits) > 0 {
		c.Resources = scan.Spec.Resources
	}
	addInitContainers(pod, scan.Spec.InitContainers)
	pod.NodeSelector = overlay(pod.NodeSelector, scan.Spec.NodeSelector)
	if scan.Spec.Affinity != nil {
		pod.Affinity = scan.Spec.Affinity
	}
	if scan.Spec.Tolerations != nil {
		pod.Tolerations = scan.Spec.Tolerations
	}
	cfg.Additions.Scanner.applyScanner(pod)
	// Without a profile a scanner could not run where the restricted Pod Security level is enforced. A
	// profile that the ScanType sets, for the pod or a container, stays.
	if pod.SecurityContext == nil {
		pod.SecurityContext = &corev1.PodSecurityContext{}
	}
	if pod.SecurityContext.SeccompProfile == nil {
		pod.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
}

// addInitContainers adds the init containers of the Scan. Where the ScanType has an account of its own,
// the API server mounts the account's token into every container that mounts nothing at that path: the
// Scan's containers get an empty folder there. The containers of the ScanType keep the token.
func addInitContainers(pod *corev1.PodSpec, own []corev1.Container) {
	if len(own) > 0 && pod.ServiceAccountName != "" && !automountOff(pod) {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: executionv1.VolumeNoToken, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		for i := range own {
			// The API server compares the paths in the same way: letter for letter.
			if !slices.ContainsFunc(own[i].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tokenDir }) {
				own[i].VolumeMounts = append(own[i].VolumeMounts, corev1.VolumeMount{Name: executionv1.VolumeNoToken, MountPath: tokenDir, ReadOnly: true})
			}
		}
	}
	pod.InitContainers = append(pod.InitContainers, own...)
}

// addLurker puts the uploading container last in the pod.
func addLurker(pod *corev1.PodSpec, in Scanner, cfg Config) {
	lurker := corev1.Container{
		Name:            executionv1.ContainerLurker,
		Image:           cfg.Lurker.Image,
		ImagePullPolicy: cfg.Lurker.PullPolicy,
		Args: []string{
			"--container", pod.Containers[0].Name,
			"--file", in.ScanType.ExtractResults.Location,
			"--url", in.UploadURL,
		},
		Env: []corev1.EnvVar{fieldEnv("NAMESPACE", "metadata.namespace"), fieldEnv(EnvPodName, "metadata.name")},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("20Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi")},
		},
		VolumeMounts:    []corev1.VolumeMount{{Name: executionv1.VolumeResults, MountPath: executionv1.ResultsDir, ReadOnly: true}},
		SecurityContext: restricted(cfg.Lurker.SeccompProfile),
	}
	if in.Parser != nil {
		lurker.Args = append(lurker.Args, "--handoff", handover.HandoffDir)
		lurker.VolumeMounts = append(lurker.VolumeMounts, corev1.VolumeMount{Name: executionv1.VolumeHandoff, MountPath: handover.HandoffDir})
	}
	if in.LogUploadURL != "" {
		lurker.Env = append(lurker.Env, corev1.EnvVar{Name: EnvLogUpload, Value: in.LogUploadURL})
	}
	if cfg.CustomCA.set() {
		lurker.VolumeMounts = append(lurker.VolumeMounts, cfg.CustomCA.caMount())
	}
	if pod.ServiceAccountName == "" {
		// The scanner runs foreign code over hostile input: it gets no token. A ScanType that names a
		// ServiceAccount of its own needs the token, and keeps its setting.
		pod.ServiceAccountName = executionv1.ServiceAccountLurker
		pod.AutomountServiceAccountToken = new(false)
	}
	if automountOff(pod) {
		pod.Volumes = append(pod.Volumes, apiTokenVolume())
		lurker.VolumeMounts = append(lurker.VolumeMounts, corev1.VolumeMount{Name: executionv1.VolumeLurkerToken, MountPath: tokenDir, ReadOnly: true})
	}
	if e := cfg.UploadEndpoint; e.URL != "" {
		lurker.Env = append(lurker.Env, corev1.EnvVar{Name: EnvUploadEndpoint, Value: e.URL}, corev1.EnvVar{Name: EnvUploadCA, Value: e.CA})
		pod.Volumes = append(pod.Volumes, uploadTokenVolume())
		lurker.VolumeMounts = append(lurker.VolumeMounts, corev1.VolumeMount{Name: executionv1.VolumeUploadToken, MountPath: UploadTokenDir, ReadOnly: true})
	}
	pod.Containers = append(slices.Clip(pod.Containers), lurker)
}

// LurkersFile is the name of the file that the lurker of a scanner Job uploads, or "".
func LurkersFile(job *batchv1.Job) string {
	for _, c := range job.Spec.Template.Spec.Containers {
		if at := slices.Index(c.Args, "--file"); c.Name == executionv1.ContainerLurker && at >= 0 && at+1 < len(c.Args) {
			return path.Base(c.Args[at+1])
		}
	}
	return ""
}

// TakesLurkersVolume returns where a Scan mounts a volume that is only for the lurker: its tokens, and the folder by which it
// tells the parser that the scanner has ended. A Scan whose author may not create pods would get the lurker's rights by it.
func TakesLurkersVolume(spec *executionv1.ScanSpec) string {
	reserved := []string{executionv1.VolumeLurkerToken, executionv1.VolumeUploadToken, executionv1.VolumeHandoff}
	for i := range spec.VolumeMounts {
		if slices.Contains(reserved, spec.VolumeMounts[i].Name) {
			return fmt.Sprintf("spec.volumeMounts[%d]: volume %s is for the lurker only; remove the mount", i, spec.VolumeMounts[i].Name)
		}
	}
	for i := range spec.InitContainers {
		for j, m := range spec.InitContainers[i].VolumeMounts {
			if slices.Contains(reserved, m.Name) {
				return fmt.Sprintf("spec.initContainers[%d].volumeMounts[%d]: volume %s is for the lurker only; remove the mount", i, j, m.Name)
			}
		}
	}
	return ""
}

// TakesToken returns where a Scan asks for a token of its pod's account, which is the account of the
// lurker or of the ScanType and not of the Scan. A Scan whose author may not create pods would get the
// rights of that account by it.
func TakesToken(spec *executionv1.ScanSpec) string {
	for i := range spec.Volumes {
		if spec.Volumes[i].Projected == nil {
			continue
		}
		for j := range spec.Volumes[i].Projected.Sources {
			if spec.Volumes[i].Projected.Sources[j].ServiceAccountToken != nil {
				return fmt.Sprintf(
					"spec.volumes[%d].projected.sources[%d].serviceAccountToken: the account of the pod is not the Scan's; remove the token, or let a ScanType bring it",
					i, j,
				)
			}
		}
	}
	return ""
}

func automountOff(pod *corev1.PodSpec) bool {
	return pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken
}

// apiTokenVolume is the volume that the API server's admission would mount into every container, here
// for the lurker alone.
func apiTokenVolume() corev1.Volume {
	return corev1.Volume{Name: executionv1.VolumeLurkerToken, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(readableByAll),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](tokenSeconds)}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
			}}},
		},
	}}}
}

// uploadTokenVolume holds a token that is valid for the upload endpoint only.
func uploadTokenVolume() corev1.Volume {
	return corev1.Volume{Name: executionv1.VolumeUploadToken, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(readableByAll),
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: UploadAudience, Path: UploadTokenFile, ExpirationSeconds: ptr.To[int64](uploadTokenSeconds),
		}}},
	}}}
}
