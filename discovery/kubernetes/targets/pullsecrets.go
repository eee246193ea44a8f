// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

const extractorName = "secret-extraction-to-env"

// addPullSecrets lets the scanner of an image read it with the credentials of the pod:
// an init container sees the pod's pull secrets and leaves the credentials of the image's
// registry, and no others, in a Secret that goes with the scanner's pod. Nothing is copied
// for a ScheduledScan in another namespace: secrets stay where they are.
func (s *search) addPullSecrets(o *executionv1.ScheduledScan, u use) {
	c := &s.ContainerAutoDiscovery.ImagePullSecretConfig
	secrets := s.pullSecrets(u.pod)
	if !c.MapImagePullSecretsToEnvironmentVariables || len(secrets) == 0 || o.Namespace != u.pod.Namespace {
		return
	}
	scan, temporary := o.Spec.ScanSpec, temporarySecretName(o.Name)
	var mounts []corev1.VolumeMount
	for _, secret := range secrets {
		volume := volumeName(secret)
		scan.Volumes = append(scan.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret},
		}})
		mounts = append(mounts, corev1.VolumeMount{Name: volume, MountPath: "/secrets/" + secret})
	}
	scan.InitContainers = append(scan.InitContainers, corev1.Container{
		Name: extractorName, Image: c.ExtractorImage,
		Args: []string{"-imageID", u.imageID, "-secret", temporary},
		Env: []corev1.EnvVar{
			fromField("POD_NAME", "metadata.name"), fromField("NAMESPACE", "metadata.namespace"), fromField("POD_UID", "metadata.uid"),
		},
		VolumeMounts: mounts,
	})
	scan.Env = append(scan.Env, fromSecret(c.UsernameEnvironmentVariableName, temporary, "username"),
		fromSecret(c.PasswordNameEnvironmentVariableName, temporary, "password"))
}

// maxVolumeName is the longest DNS label.
const maxVolumeName = 63

// volumeName is the name of the volume with a secret, whose own name may be longer and
// hold dots.
func volumeName(secret string) string {
	if strings.Contains(secret, ".") {
		secret = cut(dashes(secret), maxVolumeName) + "-" + hash(secret)
	}
	return fit(secret+"-volume", maxVolumeName)
}

// pullSecrets are the names of the secrets that the kubelet pulls a pod's images with.
func (s *search) pullSecrets(p *corev1.Pod) []string {
	refs := p.Spec.ImagePullSecrets
	if len(refs) == 0 && s.ContainerAutoDiscovery.ImagePullSecretConfig.ServiceAccountSecrets {
		if account := s.ServiceAccounts[p.Spec.ServiceAccountName]; account != nil {
			refs = account.ImagePullSecrets
		}
	}
	var all []string
	for _, r := range refs {
		if r.Name != "" && !slices.Contains(all, r.Name) {
			all = append(all, r.Name)
		}
	}
	return all
}

func fromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func fromSecret(name, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key, Optional: new(true),
	}}}
}
