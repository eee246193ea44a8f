// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// StorageClass is the default class of the cluster: folders of this machine.
	StorageClass = "local"
	provisioner  = "localcluster.scanyard.io/folder"

	// kube-controller-manager writes the first on a claim that waits for a volume, and reads the second on a volume, as
	// the documentation of external provisioners has it.
	annotationProvisioner   = "volume.kubernetes.io/storage-provisioner"
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

// claims gives every claim of the class a folder, and removes the folder of a volume whose claim is gone. Binding is
// kube-controller-manager's.
type claims struct {
	a       *Agent
	queue   workqueue.TypedRateLimitingInterface[string] // namespace/name of a claim, or the name of a volume
	claims  cache.Indexer
	volumes cache.Indexer
}

// provide makes the class and serves claims until ctx ends. It returns once the class is there.
func (a *Agent) provide(ctx context.Context, f informers.SharedInformerFactory) error {
	if err := a.makeStorageClass(ctx); err != nil {
		return err
	}
	waiting, volumes := f.Core().V1().PersistentVolumeClaims().Informer(), f.Core().V1().PersistentVolumes().Informer()
	c := &claims{
		a: a, claims: waiting.GetIndexer(), volumes: volumes.GetIndexer(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	changed := func(o any) {
		key, err := cache.MetaNamespaceKeyFunc(o)
		if err != nil {
			a.o.Log.Warn("serve claims of volumes", "error", err)
			return
		}
		c.queue.Add(key)
	}
	h := cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, o any) { changed(o) }}
	_, err1 := waiting.AddEventHandler(h)
	_, err2 := volumes.AddEventHandler(h)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("watch claims of volumes: %w", err)
	}
	go func() {
		<-ctx.Done()
		c.queue.ShutDown()
	}()
	go c.run(ctx)
	return nil
}

func (a *Agent) makeStorageClass(ctx context.Context) error {
	reclaim, mode := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	_, err := a.o.Client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: StorageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: provisioner, ReclaimPolicy: &reclaim, VolumeBindingMode: &mode,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make storage class %s: %w", StorageClass, err)
	}
	return nil
}

func (c *claims) run(ctx context.Context) {
	for {
		key, down := c.queue.Get()
		if down {
			return
		}
		if err := c.serve(ctx, key); err != nil {
			c.a.o.Log.Warn("serve a claim of a volume", "key", key, "error", err)
			c.queue.AddRateLimited(key)
		} else {
			c.queue.Forget(key)
		}
		c.queue.Done(key)
	}
}

// serve looks at one claim or volume as the API server has it now.
func (c *claims) serve(ctx context.Context, key string) error {
	if o, there, err := c.claims.GetByKey(key); err != nil {
		return err
	} else if there {
		claim := o.(*corev1.PersistentVolumeClaim)
		if claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil && claim.Annotations[annotationProvisioner] == provisioner {
			return c.provision(ctx, claim)
		}
		return nil
	}
	o, there, err := c.volumes.GetByKey(key)
	if err != nil || !there {
		return err
	}
	v := o.(*corev1.PersistentVolume)
	if v.Annotations[annotationProvisionedBy] == provisioner && v.Status.Phase == corev1.VolumeReleased {
		return c.remove(ctx, v)
	}
	return nil
}

// provision makes a folder and a volume of it. Their names are derived from the claim's UID, so that a second try finds them.
func (c *claims) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	dir := c.a.folderOf(string(claim.UID))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o777); err != nil { // whatever user the pod has, as in a volume of the kind emptyDir
		return err
	}
	_, err := c.a.o.Client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID), Annotations: map[string]string{annotationProvisionedBy: provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			// One node has them all, so that every mode works.
			AccessModes: claim.Spec.AccessModes, StorageClassName: StorageClass, VolumeMode: claim.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// remove deletes a volume whose claim is gone, the folder first: what is left of a try is found by the next.
func (c *claims) remove(ctx context.Context, v *corev1.PersistentVolume) error {
	dir := v.Spec.HostPath.Path
	if filepath.Dir(dir) != filepath.Dir(c.a.folderOf("any")) {
		return fmt.Errorf("volume %s names %s, which is not a folder of this node's volumes: it is left alone", v.Name, dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	err := c.a.o.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// folderOf is where the volume of the claim with the UID lies.
func (a *Agent) folderOf(uid string) string { return filepath.Join(a.o.Dir, "claims", uid) }

// claimed finds the folder of a claim that a pod names. The error says what the pod waits for.
func (w *worker) claimed(ctx context.Context, name string) (string, error) {
	claim, err := w.a.o.Client.CoreV1().PersistentVolumeClaims(w.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return "", fmt.Errorf("persistentvolumeclaim %q is not bound", name)
	}
	v, err := w.a.o.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if v.Spec.HostPath == nil {
		return "", fmt.Errorf("persistentvolume %q is of a kind that the local node does not support: use storage class %s", v.Name, StorageClass)
	}
	return hostPath(v.Spec.HostPath)
}
