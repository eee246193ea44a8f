// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/cli/view"
)

// namespaced are the kinds that are read in a namespace. Secrets and ConfigMaps are not among them, and
// must never be.
var namespaced = []schema.GroupVersionKind{
	executionv1.SchemeGroupVersion.WithKind("Scan"), executionv1.SchemeGroupVersion.WithKind("ScheduledScan"),
	executionv1.SchemeGroupVersion.WithKind("ScanType"), executionv1.SchemeGroupVersion.WithKind("ParseDefinition"),
	executionv1.SchemeGroupVersion.WithKind("ScanCompletionHook"), cascadingv1.SchemeGroupVersion.WithKind("CascadingRule"),
	settingsv1alpha2.SchemeGroupVersion.WithKind("ScanSetting"),
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "Event"},
	{Version: "v1", Kind: "ResourceQuota"},
	{Version: "v1", Kind: "LimitRange"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
}

// ofCluster are the kinds that are read in the whole cluster.
var ofCluster = []schema.GroupVersionKind{
	executionv1.SchemeGroupVersion.WithKind("ClusterScanType"), executionv1.SchemeGroupVersion.WithKind("ClusterParseDefinition"),
	executionv1.SchemeGroupVersion.WithKind("ClusterScanCompletionHook"), cascadingv1.SchemeGroupVersion.WithKind("ClusterCascadingRule"),
	settingsv1alpha2.SchemeGroupVersion.WithKind("ClusterScanSetting"),
}

// ofOperator are the kinds that are read in the operator's namespace.
var ofOperator = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Event"}, {Version: "v1", Kind: "Service"},
}

// collector fills a bundle.
type collector struct {
	client client.Client
	pods   kubernetes.Interface
	now    time.Time
	// most bounds the objects of a kind; lines bounds each log.
	most, lines int64
	scan        string

	tar   *tar.Writer
	notes bytes.Buffer
	files int
}

// write packs everything into out.
func (c *collector) write(ctx context.Context, out io.Writer, namespace, operatorNamespace, versions string) (err error) {
	zip := gzip.NewWriter(out)
	c.tar = tar.NewWriter(zip)
	defer func() { err = errors.Join(err, c.tar.Close(), zip.Close()) }()
	if err := c.file("versions.txt", []byte(versions)); err != nil {
		return err
	}
	steps := []func() error{
		func() error { return c.kinds(ctx, "namespaces/"+namespace, namespace, namespaced) },
		func() error { return c.kinds(ctx, "cluster", "", ofCluster) },
		func() error { return c.kinds(ctx, "namespaces/"+operatorNamespace, operatorNamespace, ofOperator) },
		func() error { return c.logs(ctx, namespace, client.HasLabels{executionv1.LabelManagedBy}) },
		func() error {
			return c.logs(ctx, operatorNamespace, client.MatchingLabels{"control-plane": "securecodebox-controller-manager"})
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return c.file("notes.txt", c.notes.Bytes())
}

func (c *collector) file(name string, body []byte) error {
	c.files++
	header := &tar.Header{Name: "scanyard-support/" + name, Mode: 0o600, Size: int64(len(body)), ModTime: c.now}
	if err := c.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := c.tar.Write(body); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// note adds to the bundle what could not be read.
func (c *collector) note(format string, args ...any) {
	fmt.Fprintf(&c.notes, format+"\n", args...)
}

func (c *collector) kinds(ctx context.Context, folder, namespace string, kinds []schema.GroupVersionKind) error {
	for _, gvk := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := c.client.List(ctx, list, client.InNamespace(namespace), client.Limit(c.most))
		switch {
		case apierrors.IsForbidden(err):
			c.note("%s in %s: you may not list them", gvk.Kind, folder)
			continue
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			c.note("%s: not served by this cluster", gvk.Kind)
			continue
		case err != nil:
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		if list.GetContinue() != "" {
			c.note("%s in %s: only the first %d", gvk.Kind, folder, c.most)
		}
		for i := range list.Items {
			if c.scan != "" && gvk.Kind == "Scan" && list.Items[i].GetName() != c.scan {
				continue
			}
			body, err := yaml.Marshal(fields(list.Items[i].Object))
			if err != nil {
				return fmt.Errorf("write %s %s: %w", gvk.Kind, list.Items[i].GetName(), err)
			}
			if err := c.file(fmt.Sprintf("%s/%s/%s.yaml", folder, gvk.Kind, list.Items[i].GetName()), body); err != nil {
				return err
			}
		}
	}
	return nil
}

// logs reads the end of the logs of pods, except those of scanners.
func (c *collector) logs(ctx context.Context, namespace string, which client.ListOption) error {
	var pods corev1.PodList
	err := c.client.List(ctx, &pods, client.InNamespace(namespace), which, client.Limit(c.most))
	if apierrors.IsForbidden(err) {
		c.note("logs in namespace %s: you may not list pods", namespace)
		return nil
	}
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		for _, container := range printable(p) {
			if err := c.log(ctx, p, container); err != nil {
				return err
			}
		}
	}
	return nil
}

// printable are the containers of a pod whose logs contain no findings: of a scanner's pod only the
// lurker.
func printable(p *corev1.Pod) []string {
	var out []string
	scanner := false
	for i := range p.Spec.Containers {
		scanner = scanner || p.Spec.Containers[i].Name == lurker
	}
	for i := range p.Spec.Containers {
		if name := p.Spec.Containers[i].Name; !scanner || name == lurker {
			out = append(out, name)
		}
	}
	return out
}

// lurker is the container beside a scanner that uploads its result.
const lurker = "lurker"

func (c *collector) log(ctx context.Context, p *corev1.Pod, container string) error {
	stream, err := c.pods.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: container, TailLines: &c.lines}).Stream(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.note("log of container %s of pod %s/%s: %s", container, p.Namespace, p.Name, Text(err.Error()))
		return nil
	}
	defer stream.Close()
	var body bytes.Buffer
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		body.WriteString(Text(lines.Text()) + "\n")
	}
	if err := lines.Err(); err != nil {
		c.note("log of container %s of pod %s/%s ends early: %s", container, p.Namespace, p.Name, Text(err.Error()))
	}
	return c.file(fmt.Sprintf("namespaces/%s/logs/%s/%s.log", p.Namespace, p.Name, container), body.Bytes())
}

// summary is the last message of the command.
func (c *collector) summary(path string, size int64) string {
	return fmt.Sprintf("%s: %s, %d KiB", path, view.Plural(int64(c.files), "file"), (size+1023)/1024)
}
