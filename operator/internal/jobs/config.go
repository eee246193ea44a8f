// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Config is the part of the operator's settings that applies to every Job.
type Config struct {
	Lurker         Lurker
	CustomCA       CustomCA
	IstioInject    bool
	UploadEndpoint UploadEndpoint
	// Additions are the additions of the Scan's namespace.
	Additions Additions
}

// Lurker is the container that uploads the result of a scanner.
type Lurker struct {
	Image          string
	PullPolicy     corev1.PullPolicy
	SeccompProfile corev1.SeccompProfile
}

// CustomCA is a ConfigMap in every namespace with Scans that holds a certificate to
// trust. The zero value means none.
type CustomCA struct {
	// ConfigMap is the name of the ConfigMap.
	ConfigMap string
	// Key is the key of the certificate in it, and the file name in the pods.
	Key string
}

// set reports whether there is a certificate to trust.
func (c CustomCA) set() bool { return c.ConfigMap != "" }

// path is the path of the certificate in the pods.
func (c CustomCA) path() string { return "/etc/ssl/certs/" + c.Key }

// UploadEndpoint is where a lurker gets a fresh upload URL when its first one has
// expired. The zero value means there is no endpoint.
type UploadEndpoint struct {
	// URL of the endpoint.
	URL string
	// CA is the certificate, PEM, that signs the endpoint's certificate. It is public.
	CA string
}

//nolint:gosec // G101: names and paths, no credentials
const (
	// tokenDir is where client-go and every other client looks for a pod's token.
	tokenDir = "/var/run/secrets/kubernetes.io/serviceaccount"
	// UploadTokenDir holds the token with which the lurker asks for a fresh upload URL.
	UploadTokenDir = "/var/run/secrets/scanyard.io/upload"
	// UploadTokenFile is the name of that token below UploadTokenDir.
	UploadTokenFile = "token"
	// UploadAudience is the audience of that token: the API server refuses it.
	UploadAudience = "scanyard-upload"

	// EnvUploadEndpoint is the URL of UploadEndpoint, for a lurker.
	EnvUploadEndpoint = "UPLOAD_URL_ENDPOINT"
	// EnvUploadCA is the CA of UploadEndpoint, PEM, for a lurker.
	EnvUploadCA = "UPLOAD_URL_ENDPOINT_CA"
	// EnvLogUpload is the presigned PUT for the end of the scanner's log, for a lurker.
	EnvLogUpload = "SCANNER_LOG_UPLOAD_URL"
	// EnvPodName is the name of the lurker's pod. HOSTNAME, which the contract has, is another name with
	// hostNetwork or spec.hostname.
	EnvPodName = "POD_NAME"

	tokenSeconds       = 3607 // as the API server's own default, so that kubelet treats both alike
	uploadTokenSeconds = 3600
	readableByAll      = int32(0o444)
)

// fieldEnv is an environment variable with a field of the pod as its value.
func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

// caMount mounts the certificate of c as one file among the files of the image.
func (c CustomCA) caMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: executionv1.VolumeCACertificate, MountPath: c.path(), SubPath: c.Key, ReadOnly: true}
}

func (c CustomCA) caVolume() corev1.Volume {
	return corev1.Volume{Name: executionv1.VolumeCACertificate, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: c.ConfigMap}},
	}}
}

func (c Config) istio() string { return strconv.FormatBool(c.IstioInject) }
