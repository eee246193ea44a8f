// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/ledger"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/webhook"
)

// world is what all tests share.
type world struct {
	config *rest.Config
	admin  client.WithWatch
	kube   kubernetes.Interface
	helm   *install.Helm
	op     *install.Operator
	scans  *follow.Objects[*executionv1.Scan]
	jobs   *follow.Objects[*batchv1.Job]
	ran    ledger.Ledger
	hooks  *webhook.Receiver
	store  *minio.Client
	bucket string
	tools  install.Scanners
	// images is the folder in which the cluster looks for images that it has no
	// program for.
	images string
}

var w world

// uploadURLs is how long the upload URLs of scanners live.
const uploadURLs = "3s"

// inImage is the first argument by which this program knows that it runs as a
// container of some image of the tests.
const inImage = "in-image"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == inImage {
		os.Exit(runInImage(os.Args[2], os.Args[3:]))
	}
	log.SetLogger(logr.Discard())
	flag.Parse()
	if p := flag.Lookup("test.parallel"); !isSet("test.parallel") {
		// Tests mostly wait for pods, and some for the pauses between a Job's tries: more
		// of them than there are processors.
		if err := p.Value.Set("20"); err != nil {
			panic(err)
		}
	}
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// runAll sets the world up, runs the tests and takes it down.
func runAll(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "scanyard-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	programs, err := install.FromEnvironment("../..")
	if err != nil {
		return 1, err
	}
	if w.tools, err = install.ScannersFromEnvironment(programs, "../.."); err != nil {
		return 1, err
	}
	cluster, err := w.startCluster(ctx, dir)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := w.connect(cluster); err != nil {
		return 1, err
	}
	if w.helm, err = install.NewHelm(ctx, programs, cluster.Kubeconfig, filepath.Join(dir, "helm")); err != nil {
		return 1, err
	}
	w.hooks = webhook.Start()
	defer w.hooks.Close()
	if err := w.installOperator(ctx, cluster); err != nil {
		return 1, err
	}
	w.scans = follow.Start[*executionv1.Scan](ctx, w.admin, &executionv1.ScanList{}, nil)
	w.jobs = follow.Start(ctx, w.admin, &batchv1.JobList{}, w.ran.Add, client.HasLabels{executionv1.LabelJobType})
	code = m.Run()
	return code, w.checkOperator(ctx)
}

// startCluster starts a cluster that has programs of this machine for the images of
// charts and tests, and a folder for other images.
func (w *world) startCluster(ctx context.Context, dir string) (*localcluster.Cluster, error) {
	tool, err := copySelf(dir)
	if err != nil {
		return nil, err
	}
	standIns, err := imagesOfStandIns(dir, tool, &w.tools)
	if err != nil {
		return nil, err
	}
	images := filepath.Join(dir, "images.yaml")
	if err := install.WriteImagesMap(images, slices.Concat(w.tools.Images(), imagesOfTests(tool), standIns)); err != nil {
		return nil, err
	}
	w.images = filepath.Join(dir, "images")
	if err := os.Mkdir(w.images, 0o700); err != nil {
		return nil, err
	}
	return localcluster.Start(ctx, localcluster.Options{
		Binary: w.tools.Path("localcluster"), DataDir: filepath.Join(dir, "cluster"), Timeout: 2 * time.Minute,
		Node: localcluster.NodeOptions{ImagesMap: images, Images: w.images, Backoff: localcluster.Duration(500 * time.Millisecond)},
	})
}

func (w *world) connect(c *localcluster.Cluster) (err error) {
	if w.config, err = c.RESTConfig(); err != nil {
		return err
	}
	if w.admin, err = scans.Connect(w.config); err != nil {
		return err
	}
	if w.kube, err = kubernetes.NewForConfig(w.config); err != nil {
		return err
	}
	w.bucket = c.ObjectStore.Bucket
	w.store, err = minio.New(c.ObjectStore.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(c.ObjectStore.AccessKey, c.ObjectStore.SecretKey, ""), Region: c.ObjectStore.Region,
	})
	return err
}

func (w *world) installOperator(ctx context.Context, c *localcluster.Cluster) (err error) {
	w.op, err = w.helm.InstallOperator(ctx, w.config, install.OperatorOptions{
		Store: c.ObjectStore,
		Values: map[string]any{
			"presignedUrlExpirationTimes": map[string]any{"scanners": uploadURLs, "parsers": "1h", "hooks": "1h"},
			"scanPolicy":                  policyValues(),
		},
		Args: []string{"--missing-kind-grace=5s"},
	})
	if err != nil {
		return err
	}
	return w.op.Ready(ctx, 2*time.Minute)
}

// checkOperator holds after all tests: the operator never crashed, and was never
// forbidden anything, so the rights that the chart gives it are enough.
func (w *world) checkOperator(ctx context.Context) error {
	pods, err := w.op.Pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		for _, s := range pods[i].Status.ContainerStatuses {
			if s.RestartCount > 0 {
				err = errors.Join(err, fmt.Errorf("the operator was restarted %d times, last after %+v", s.RestartCount, s.LastTerminationState.Terminated))
			}
		}
	}
	logs, logErr := w.op.Logs(ctx)
	if path := os.Getenv("OPERATOR_LOG"); path != "" {
		err = errors.Join(err, os.WriteFile(path, []byte(logs), 0o600))
	}
	return errors.Join(err, logErr, complaints(logs))
}

// complaints returns lines of a log that should not be there.
func complaints(logs string) error {
	var errs []error
	for line := range strings.Lines(logs) {
		lower := strings.ToLower(line)
		for _, bad := range []string{"is forbidden: user", "panic", "x-amz-signature="} {
			// What a quota forbids, it forbids to everybody.
			if strings.Contains(lower, bad) && len(errs) < 10 {
				errs = append(errs, fmt.Errorf("the operator logged: %s", strings.TrimSpace(line)))
			}
		}
	}
	return errors.Join(errs...)
}

// inside is where containers have this program.
const inside = "/usr/local/bin/e2e"

// imagesOfTests are images that stand for scanners, parsers and hooks of other people.
// Some run this program, of which tool is a copy.
func imagesOfTests(tool string) []install.Image {
	sh := func(name, script string) install.Image {
		return install.Image{Image: "docker.io/e2e/" + name, Entrypoint: []string{"/bin/sh", "-c", script, name}}
	}
	return []install.Image{
		{Image: "docker.io/e2e/sh"},
		sh("ok", "exit 0"),
		sh("slow", "sleep 2"),
		sh("fail", "echo 'the gateway is closed' >/dev/termination-log; exit 3"),
		{Image: "docker.io/e2e/upstream-parser", Entrypoint: []string{inside, inImage, "upstream-parser"}, Binaries: map[string]string{inside: tool}},
	}
}

// copySelf copies this program, since the folder of a test's binary may be closed to a
// container's user.
func copySelf(dir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	tool := filepath.Join(dir, "tool")
	return tool, copyFile(self, tool)
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
