// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/terminal"
)

// yard is a running cluster with the operator installed.
type yard struct {
	dir      string
	programs install.Programs
	cluster  *localcluster.Cluster
	config   *rest.Config
	admin    client.WithWatch
	helm     *install.Helm
	op       *install.Operator
}

// Files of the demo beside the cluster's own.
const (
	clusterDir = "cluster"
	helmDir    = "helm"
	imagesMap  = "images.yaml"
	cacheDir   = "kube-cache"
)

// Bounds of the waits; a machine that is busy takes several times as long as usual.
const (
	clusterTimeout  = 2 * time.Minute
	operatorTimeout = 2 * time.Minute
)

// startCluster starts a cluster below dir. A detached one outlives this process.
func startCluster(ctx context.Context, p install.Programs, dir string, detached bool) (*yard, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	images := filepath.Join(dir, imagesMap)
	if err := install.WriteImagesMap(images, p.Images()); err != nil {
		return nil, err
	}
	y := &yard{dir: dir, programs: p}
	var err error
	if detached {
		y.cluster, err = startDetached(ctx, p, filepath.Join(dir, clusterDir), images)
	} else {
		y.cluster, err = localcluster.Start(ctx, localcluster.Options{
			Binary: p.Path("localcluster"), DataDir: filepath.Join(dir, clusterDir), Timeout: clusterTimeout,
			Node: localcluster.NodeOptions{ImagesMap: images},
		})
	}
	if err != nil {
		return nil, err
	}
	if y.config, err = y.cluster.RESTConfig(); err == nil {
		y.admin, err = scans.Connect(y.config)
	}
	if err == nil {
		y.helm, err = install.NewHelm(ctx, p, y.cluster.Kubeconfig, filepath.Join(dir, helmDir))
	}
	if err != nil {
		return nil, errors.Join(err, y.remove())
	}
	return y, nil
}

func startDetached(ctx context.Context, p install.Programs, dir, images string) (*localcluster.Cluster, error) {
	cmd := exec.CommandContext(ctx, p.Path("localcluster"), "up", "--detach", "--data-dir", dir, "--images-map", images)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("start local cluster: %w\n%s", err, strings.TrimSpace(said.String()))
	}
	return localcluster.Attach(dir)
}

// remove stops the cluster and removes what it and the demo have written.
func (y *yard) remove() error {
	if err := y.cluster.Stop(); err != nil {
		return err
	}
	return removeFiles(y.dir)
}

// removeFiles removes the files of a stopped yard, and nothing else.
func removeFiles(dir string) error {
	errs := []error{
		localcluster.Remove(localcluster.Layout(filepath.Join(dir, clusterDir))),
		os.RemoveAll(filepath.Join(dir, helmDir)),
		os.RemoveAll(filepath.Join(dir, imagesMap)),
		os.RemoveAll(filepath.Join(dir, cacheDir)),
	}
	if left, err := os.ReadDir(dir); err == nil && len(left) == 0 {
		errs = append(errs, os.Remove(dir))
	}
	return errors.Join(errs...)
}

// installAll installs the operator, then the reports API server and the charts beside each
// other, and waits until the operator and the server are ready. The values are further ones of the operator.
func (y *yard) installAll(ctx context.Context, say func(string, ...any), values map[string]any, releases []install.Release) error {
	var err error
	y.op, err = y.helm.InstallOperator(ctx, y.config, install.OperatorOptions{Store: y.cluster.ObjectStore, Values: values})
	if err != nil {
		return err
	}
	say("helm install scanyard               the operator, in namespace %s", install.Namespace)
	reports, err := install.Reports(ctx)
	if err != nil {
		return err
	}
	releases = append([]install.Release{reports}, releases...)
	results := make(chan error, len(releases)+1)
	go func() { results <- y.op.Ready(ctx, operatorTimeout) }()
	for _, r := range releases {
		go func() { results <- y.helm.Install(ctx, r) }()
	}
	for range len(releases) + 1 {
		err = errors.Join(err, <-results)
	}
	if err != nil {
		return err
	}
	for _, r := range releases {
		say("%s", describe(r))
	}
	return install.ReportsReady(ctx, y.admin, operatorTimeout)
}

// describe is a line about a release, in Helm's words.
func describe(r install.Release) string {
	what := "in namespace " + r.Namespace
	if r.Values["clusterWide"] == true {
		what = "for the whole cluster (clusterWide=true)"
	}
	if ns, ok := r.Values["executionNamespace"]; ok {
		what += fmt.Sprintf(", runs in namespace %s", ns)
	}
	return fmt.Sprintf("helm install %-22s %s", r.Chart, what)
}

// commandLine is scanyard as the cluster's admin types it.
func (y *yard) commandLine() terminal.Program {
	return terminal.Program{
		Path: y.programs.Path("scanyard"),
		Env:  []string{"KUBECONFIG=" + y.cluster.Kubeconfig, "KUBECACHEDIR=" + filepath.Join(y.dir, cacheDir)},
	}
}

// team makes a namespace and a user who may edit in it, as teams have it on real
// clusters.
func (y *yard) team(ctx context.Context, namespace, user string) error {
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user + "-edits"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, binding} {
		if err := y.admin.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// clock prints lines with the seconds since the start.
type clock struct {
	began time.Time
	out   io.Writer
}

func (c clock) say(format string, args ...any) {
	fmt.Fprintf(c.out, "%6.1fs  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}
