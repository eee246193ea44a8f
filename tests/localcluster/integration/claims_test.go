// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestClaimOutlivesItsPods holds that what one pod writes into a claim is there for the next, and goes with the claim.
func TestClaimOutlivesItsPods(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	_, err := k.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := output(t, k, withClaim(ns, "first", "echo kept > /data/file && echo written")); got != "written\n" {
		t.Errorf("the first pod said %q", got)
	}
	if got, _ := output(t, k, withClaim(ns, "second", "cat /data/file")); got != "kept\n" {
		t.Errorf("the second pod read %q, want what the first wrote", got)
	}
	folder := folderOf(t, k, ns, "data")
	for _, name := range []string{"first", "second"} { // a claim is protected as long as pods name it
		if err := k.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.CoreV1().PersistentVolumeClaims(ns).Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the claim's volume", func(ctx context.Context) (bool, error) {
		_, err := k.CoreV1().PersistentVolumes().Get(ctx, folder.volume, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if _, err := os.Stat(folder.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func withClaim(ns, name, script string) *corev1.Pod {
	c := sh("c", script)
	c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	p := newPod(ns, name, c)
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	return p
}

type folder struct{ volume, path string }

func folderOf(t *testing.T, k kubernetes.Interface, ns, claim string) folder {
	t.Helper()
	c, err := k.CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := k.CoreV1().PersistentVolumes().Get(t.Context(), c.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return folder{v.Name, v.Spec.HostPath.Path}
}
