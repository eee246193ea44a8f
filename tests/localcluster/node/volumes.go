// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"github.com/scanyard/scanyard/tests/localcluster/sandbox"
)

// volume is a pod's volume as a place on this machine.
type volume struct {
	path     string
	readOnly bool
}

// volumes makes a pod's volumes. It may be called again after an error, and by
// a restarted agent: what is there is kept or written anew.
func (w *worker) volumes(ctx context.Context) (map[string]volume, error) {
	src := apiSources{ctx, w.a.o.Client, w.pod.Namespace}
	var group *int64
	if sc := w.pod.Spec.SecurityContext; sc != nil {
		group = sc.FSGroup
	}
	out := map[string]volume{}
	for i := range w.pod.Spec.Volumes {
		v := &w.pod.Spec.Volumes[i]
		if v.HostPath != nil {
			path, err := hostPath(v.HostPath)
			if err != nil {
				return nil, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
			}
			out[v.Name] = volume{path: path}
			continue
		}
		if v.PersistentVolumeClaim != nil {
			dir, err := w.claimed(ctx, v.PersistentVolumeClaim.ClaimName)
			if err != nil {
				return nil, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
			}
			if err := ownVolume(dir, group, false); err != nil {
				return nil, err
			}
			out[v.Name] = volume{path: dir, readOnly: v.PersistentVolumeClaim.ReadOnly}
			continue
		}
		dir := filepath.Join(w.dir, "volumes", v.Name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		if v.EmptyDir != nil {
			if err := errors.Join(os.Chmod(dir, 0o777), ownVolume(dir, group, false)); err != nil {
				return nil, err
			}
			out[v.Name] = volume{path: dir}
			continue
		}
		if err := w.fill(ctx, dir, v, src); err != nil {
			return nil, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
		}
		if err := ownVolume(dir, group, true); err != nil {
			return nil, err
		}
		out[v.Name] = volume{path: dir, readOnly: true}
	}
	return out, nil
}

// hostPath makes and checks a path of the machine as its type asks for.
func hostPath(v *corev1.HostPathVolumeSource) (string, error) {
	kind := corev1.HostPathUnset
	if v.Type != nil {
		kind = *v.Type
	}
	switch kind {
	case corev1.HostPathDirectoryOrCreate:
		if err := os.MkdirAll(v.Path, 0o755); err != nil {
			return "", err
		}
	case corev1.HostPathFileOrCreate:
		f, err := os.OpenFile(v.Path, os.O_CREATE, 0o644)
		if err != nil {
			return "", err
		}
		if err := f.Close(); err != nil {
			return "", err
		}
	}
	st, err := os.Stat(v.Path)
	if err != nil {
		return "", fmt.Errorf("hostPath type check failed: %w", err)
	}
	if kind == corev1.HostPathDirectory && !st.IsDir() {
		return "", fmt.Errorf("hostPath type check failed: %s is not a directory", v.Path)
	}
	if kind == corev1.HostPathFile && !st.Mode().IsRegular() {
		return "", fmt.Errorf("hostPath type check failed: %s is not a file", v.Path)
	}
	return v.Path, nil
}

// fill writes a volume whose content comes from the API.
func (w *worker) fill(ctx context.Context, dir string, v *corev1.Volume, src sources) error {
	switch {
	case v.ConfigMap != nil:
		c := v.ConfigMap
		return fromObject(dir, "configmap", c.Name, src.configMap, c.Items, isTrue(c.Optional), c.DefaultMode)
	case v.Secret != nil:
		s := v.Secret
		return fromObject(dir, "secret", s.SecretName, src.secret, s.Items, isTrue(s.Optional), s.DefaultMode)
	case v.DownwardAPI != nil:
		return w.downward(dir, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if err := w.project(ctx, dir, &v.Projected.Sources[i], v.Projected.DefaultMode, src); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New(
		"this kind of volume is not supported by the local node: use emptyDir, configMap, secret, downwardAPI, projected, persistentVolumeClaim or hostPath",
	)
}

func (w *worker) project(ctx context.Context, dir string, p *corev1.VolumeProjection, mode *int32, src sources) error {
	switch {
	case p.ConfigMap != nil:
		return fromObject(dir, "configmap", p.ConfigMap.Name, src.configMap, p.ConfigMap.Items, isTrue(p.ConfigMap.Optional), mode)
	case p.Secret != nil:
		return fromObject(dir, "secret", p.Secret.Name, src.secret, p.Secret.Items, isTrue(p.Secret.Optional), mode)
	case p.DownwardAPI != nil:
		return w.downward(dir, p.DownwardAPI.Items, mode)
	case p.ServiceAccountToken != nil:
		return w.token(ctx, dir, p.ServiceAccountToken, mode)
	}
	return errors.New("this kind of projection is not supported by the local node")
}

// fromObject writes the keys of a ConfigMap or Secret.
func fromObject(dir, kind, name string, get func(string) (map[string][]byte, error), items []corev1.KeyToPath, optional bool, mode *int32) error {
	data, err := get(name)
	if err != nil {
		return err
	}
	if data == nil {
		if optional {
			return nil
		}
		return fmt.Errorf("%s %q not found", kind, name)
	}
	if len(items) == 0 {
		for k, v := range data {
			if err := writeFile(dir, k, v, mode, nil); err != nil {
				return err
			}
		}
		return nil
	}
	for _, i := range items {
		v, found := data[i.Key]
		if !found {
			if optional {
				continue
			}
			return fmt.Errorf("references non-existent %s key: %s", kind, i.Key)
		}
		if err := writeFile(dir, i.Path, v, mode, i.Mode); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) downward(dir string, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for _, i := range items {
		var value string
		var err error
		switch {
		case i.FieldRef != nil && i.FieldRef.FieldPath == "metadata.labels":
			value = fieldpath.FormatMap(w.pod.Labels)
		case i.FieldRef != nil && i.FieldRef.FieldPath == "metadata.annotations":
			value = fieldpath.FormatMap(w.pod.Annotations)
		case i.FieldRef != nil:
			value, err = podField(w.pod, w.a.podIP, i.FieldRef.FieldPath)
		case i.ResourceFieldRef != nil:
			value, err = containerResource(w.pod, i.ResourceFieldRef.ContainerName, i.ResourceFieldRef, w.a.allocatable())
		}
		if err != nil {
			return err
		}
		if err := writeFile(dir, i.Path, []byte(value), mode, i.Mode); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes in one step, so that a container never reads half of it.
func writeFile(dir, name string, data []byte, defaultMode, own *int32) error {
	mode := fs.FileMode(0o644)
	if defaultMode != nil {
		mode = fs.FileMode(*defaultMode)
	}
	if own != nil {
		mode = fs.FileMode(*own)
	}
	path := filepath.Join(dir, filepath.Clean("/"+name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(path), "..new-"+filepath.Base(path))
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(tmp, mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// token writes a ServiceAccount token that is bound to the pod, and keeps it
// fresh: a new one replaces it at four fifths of its life, or after a day.
func (w *worker) token(ctx context.Context, dir string, t *corev1.ServiceAccountTokenProjection, mode *int32) error {
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: t.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: w.pod.Name, UID: w.pod.UID},
	}}
	if t.Audience != "" {
		req.Spec.Audiences = []string{t.Audience}
	}
	got, err := w.a.o.Client.CoreV1().ServiceAccounts(w.pod.Namespace).CreateToken(ctx, w.pod.Spec.ServiceAccountName, req, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("failed to fetch token: %w", err)
	}
	if err := writeFile(dir, t.Path, []byte(got.Status.Token), mode, nil); err != nil {
		return err
	}
	if sc := w.pod.Spec.SecurityContext; sc != nil {
		if err := ownVolume(dir, sc.FSGroup, true); err != nil {
			return err
		}
	}
	pause := refreshAfter(got.Status.ExpirationTimestamp.Sub(w.a.o.Now()))
	w.refreshOnce(dir+"/"+t.Path, func() {
		for sleep(w.life, pause) {
			if err := w.token(w.life, dir, t, mode); err != nil {
				w.a.o.Log.Warn("refresh token", "pod", w.pod.Name, "error", err)
			}
		}
	})
	return nil
}

// refreshAfter is when a token of the given life is replaced.
func refreshAfter(life time.Duration) time.Duration {
	return max(min(life*4/5, 24*time.Hour), time.Second)
}

// mounts turns a container's volumeMounts into what the sandbox binds.
func (w *worker) mounts(c *corev1.Container, vols map[string]volume, env map[string]string) ([]sandbox.Mount, error) {
	var out []sandbox.Mount
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		v, found := vols[m.Name]
		if !found {
			return nil, fmt.Errorf("cannot find volume %q to mount into container %q", m.Name, c.Name)
		}
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = expansion.Expand(m.SubPathExpr, expansion.MappingFuncFor(env))
		}
		path, err := subPath(v, sub)
		if err != nil {
			return nil, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", m.Name, c.Name, err)
		}
		out = append(out, sandbox.Mount{Source: path, Target: m.MountPath, ReadOnly: v.readOnly || m.ReadOnly})
	}
	return out, nil
}

// subPath finds a path inside a volume, without following links out of it, and
// makes it a directory if the volume can be written.
func subPath(v volume, sub string) (string, error) {
	if sub == "" {
		return v.path, nil
	}
	if filepath.IsAbs(sub) || strings.HasPrefix(filepath.Clean(sub), "..") {
		return "", fmt.Errorf("%q must stay inside of the volume", sub)
	}
	r, err := os.OpenRoot(v.path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	if _, err := r.Stat(sub); errors.Is(err, fs.ErrNotExist) && !v.readOnly {
		if err := r.MkdirAll(sub, 0o755); err != nil {
			return "", err
		}
		if err := r.Chmod(sub, 0o777); err != nil {
			return "", err
		}
	} else if err != nil {
		return "", err
	}
	return filepath.Join(v.path, sub), nil
}
