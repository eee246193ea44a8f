// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/ledger"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/suite"
	"github.com/scanyard/scanyard/tests/webhook"
)

// world is what all specs share.
type world struct {
	config *rest.Config
	admin  client.WithWatch
	kube   kubernetes.Interface
	helm   *install.Helm
	op     *install.Operator
	scans  *follow.Objects[*executionv1.Scan]
	jobs   *follow.Objects[*batchv1.Job]
	ran    ledger.Ledger
	hooks  webhook.Address
	store  *minio.Client
	bucket string
	tools  install.Scanners
	place  place
	// apiServerKilled says that a spec has killed the API server.
	apiServerKilled bool
}

var w = &world{}

// uploadURLs is how long the upload URLs of scanners live.
const uploadURLs = "3s"

// inImage is the first argument by which this program knows that it runs as a
// container of some image of the tests.
const inImage = "in-image"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == inImage {
		os.Exit(runInImage(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

func TestE2E(t *testing.T) { suite.Run(t, "Scanyard, end to end") }

// place is where the world is, for all processes of the suite.
type place struct {
	// Dir is the suite's folder, with the cluster's in it.
	Dir      string
	Operator *install.Operator
	Hooks    webhook.Address
}

// The first process makes one cluster with the operator, and all take their specs to it.
var _ = SynchronizedBeforeSuite(func(ctx SpecContext) []byte {
	p, err := w.begin(ctx)
	Expect(err).NotTo(HaveOccurred())
	b, err := json.Marshal(p)
	Expect(err).NotTo(HaveOccurred())
	return b
}, func(b []byte) {
	var p place
	Expect(json.Unmarshal(b, &p)).To(Succeed())
	Expect(w.enter(p)).To(Succeed())
	// What is followed is followed until the last spec has ended.
	ctx, stop := context.WithCancel(context.Background())
	DeferCleanup(stop)
	w.scans = follow.Start[*executionv1.Scan](ctx, w.admin, &executionv1.ScanList{}, nil)
	w.jobs = follow.Start(ctx, w.admin, &batchv1.JobList{}, w.ran.Add, client.HasLabels{executionv1.LabelJobType})
})

var _ = SynchronizedAfterSuite(func() {}, func(ctx SpecContext) {
	if w.op != nil {
		Expect(w.checkOperator(ctx)).To(Succeed())
	}
})

// begin starts the cluster, installs the operator, and has both go with the suite.
func (w *world) begin(ctx context.Context) (p place, err error) {
	if p.Dir, err = os.MkdirTemp("", "scanyard-e2e-"); err != nil {
		return p, err
	}
	DeferCleanup(os.RemoveAll, p.Dir)
	programs, err := install.FromEnvironment("../..")
	if err != nil {
		return p, err
	}
	if w.tools, err = install.ScannersFromEnvironment(programs, "../.."); err != nil {
		return p, err
	}
	cluster, err := w.startCluster(ctx, p.Dir)
	if err != nil {
		return p, err
	}
	DeferCleanup(cluster.Stop)
	cfg, err := cluster.RESTConfig()
	if err != nil {
		return p, err
	}
	if w.helm, err = install.NewHelm(ctx, programs, cluster.Kubeconfig, p.helm()); err != nil {
		return p, err
	}
	hooks := webhook.Start()
	DeferCleanup(hooks.Close)
	p.Hooks = hooks.Address()
	p.Operator, err = w.installOperator(ctx, cluster, cfg)
	return p, err
}

func (p place) helm() string    { return filepath.Join(p.Dir, "helm") }
func (p place) images() string  { return filepath.Join(p.Dir, "images") }
func (p place) cluster() string { return filepath.Join(p.Dir, "cluster") }

// enter connects a process to the world.
func (w *world) enter(p place) error {
	programs, err := install.FromEnvironment("../..")
	if err != nil {
		return err
	}
	if w.tools, err = install.ScannersFromEnvironment(programs, "../.."); err != nil {
		return err
	}
	cluster, err := localcluster.Attach(p.cluster())
	if err != nil {
		return err
	}
	if err := w.connect(cluster); err != nil {
		return err
	}
	w.place, w.hooks, w.helm = p, p.Hooks, install.OpenHelm(programs, cluster.Kubeconfig, p.helm())
	w.op, err = p.Operator.Connect(w.config)
	return err
}

// onceForAll does something once for all processes of the suite, in the one whose spec comes
// first; specs that come while that goes on wait for the answer, and later ones get it at once.
func onceForAll(what string, do func() (string, error)) string {
	GinkgoHelper()
	path := filepath.Join(w.place.Dir, "once-"+what)
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	Expect(err).NotTo(HaveOccurred())
	defer lock.Close() // which unlocks
	Expect(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)).To(Succeed())
	answer, err := os.ReadFile(path)
	if err == nil {
		return string(answer)
	}
	Expect(err).To(MatchError(os.ErrNotExist))
	text, err := do()
	Expect(err).NotTo(HaveOccurred(), what)
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	return text
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
	p := place{Dir: dir}
	if err := os.Mkdir(p.images(), 0o700); err != nil {
		return nil, err
	}
	return localcluster.Start(ctx, localcluster.Options{
		Binary: w.tools.Path("localcluster"), DataDir: p.cluster(), Timeout: 5 * time.Minute,
		Node: localcluster.NodeOptions{ImagesMap: images, Images: p.images(), Backoff: localcluster.Duration(500 * time.Millisecond)},
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

func (w *world) installOperator(ctx context.Context, c *localcluster.Cluster, cfg *rest.Config) (*install.Operator, error) {
	op, err := w.helm.InstallOperator(ctx, cfg, install.OperatorOptions{
		Store: c.ObjectStore,
		Values: map[string]any{
			"presignedUrlExpirationTimes": map[string]any{"scanners": uploadURLs, "parsers": "1h", "hooks": "1h"},
			"scanPolicy":                  policyValues(),
			"statusPolicy":                statusPolicyValues(),
		},
		Args: []string{"--missing-kind-grace=15s"},
	})
	if err != nil {
		return nil, err
	}
	return op, op.Ready(ctx, 2*time.Minute)
}

// checkOperator holds after all specs: the operator never crashed, and was never
// forbidden anything, so the rights that the chart gives it are enough.
func (w *world) checkOperator(ctx context.Context) error {
	pods, err := w.op.Pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		for _, s := range pods[i].Status.ContainerStatuses {
			if s.RestartCount > 0 && !w.apiServerKilled { // without an API server it gives its lease up, which ends it
				err = errors.Join(err, fmt.Errorf("the operator was restarted %d times, last after %+v", s.RestartCount, s.LastTerminationState.Terminated))
			}
		}
	}
	logs, logErr := w.op.Logs(ctx)
	if path := os.Getenv("OPERATOR_LOG"); path != "" {
		err = errors.Join(err, os.WriteFile(path, []byte(logs), 0o600))
	}
	if w.apiServerKilled { // one that starts again forbids everything until it has read the roles
		logs = strings.ReplaceAll(logs, "is forbidden: User", "")
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
