// SPDX-License-Identifier: Apache-2.0

// Package testcluster gives tests of the product's modules a real API server, with our CRDs,
// and a real S3 server. It is a module of its own, since those modules must not require the
// libraries of Kubernetes' servers that the local cluster is linked with.
//
// It starts the project's local cluster and stops what would run Jobs: tests play the Job
// controller and the kubelet themselves, so that they decide what is seen when.
package testcluster

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

const (
	startTimeout = 2 * time.Minute
	crdTimeout   = time.Minute
)

// Cluster is an API server and an S3 server.
type Cluster struct {
	Config  *rest.Config
	Scheme  *k8sruntime.Scheme
	Client  client.Client
	Storage Storage

	binary, dir string
	// lease is nil unless the cluster belongs to a pool.
	lease *lease
}

const controllerManager = "kube-controller-manager"

// region is what requests to the S3 server are signed for.
const region = "us-east-1"

// Storage is how the S3 server is reached: by plain HTTP, with the bucket in the path.
type Storage struct {
	// Endpoint is host:port.
	Endpoint, Bucket, Region, AccessKey, SecretKey string
}

// Main is for a TestMain: it starts a Cluster, hands it over, runs the tests and stops it. It returns the exit code.
// Fuzz tests need no cluster: while they run there is none.
func Main(m *testing.M, started func(*Cluster)) (code int) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		return m.Run()
	}
	c, err := Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	started(c)
	return m.Run()
}

// Start starts a cluster, with further flags of localcluster up. It takes the local cluster's binary from LOCALCLUSTER_BIN or
// from bin/ of the checkout. With a folder in TESTCLUSTER_POOL, a cluster without flags is lent from the pool there.
func Start(ctx context.Context, up ...string) (*Cluster, error) {
	binary, err := findBinary()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if folder := os.Getenv("TESTCLUSTER_POOL"); folder != "" && len(up) == 0 {
		return pool(folder).lend(ctx, binary)
	}
	dir, err := os.MkdirTemp("", "scanyard-testcluster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{binary: binary, dir: dir}
	if err := c.start(ctx, up...); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Stop stops the cluster and removes what it made, or gives it back to its pool.
func (c *Cluster) Stop() error {
	if c.lease != nil {
		return c.giveBack(context.Background())
	}
	_, err := c.run(context.Background(), "down")
	return errors.Join(err, os.RemoveAll(c.dir))
}

// Kubeconfig is a file with the credentials of the cluster's admin, for programs of their own.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

func findBinary() (string, error) {
	path := os.Getenv("LOCALCLUSTER_BIN")
	if path == "" {
		path = filepath.Join(root(), "bin", "localcluster")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("these tests need the local cluster: run \"make bin/localcluster\", or set LOCALCLUSTER_BIN: %w", err)
	}
	return path, nil
}

// root is the folder of the checkout: the one with go.work above the package whose tests run. Programs do
// not know where they were compiled (-trimpath). Without such a folder it is the current one.
func root() string {
	here, err := os.Getwd()
	if err != nil {
		return "."
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return here
		}
	}
}

func (c *Cluster) start(ctx context.Context, up ...string) error {
	if _, err := c.run(ctx, append([]string{"up", "--detach"}, up...)...); err != nil {
		return err
	}
	for _, component := range []string{"node", controllerManager} {
		if _, err := c.run(ctx, "stop", component); err != nil {
			return err
		}
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.readStorage(); err != nil {
		return err
	}
	crds, err := CRDs()
	if err != nil {
		return err
	}
	return c.installCRDs(ctx, crds)
}

func (c *Cluster) connect() error {
	var err error
	c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return err
	}
	c.Config.QPS = -1
	c.Scheme = k8sruntime.NewScheme()
	err = errors.Join(clientgoscheme.AddToScheme(c.Scheme), apiextensionsv1.AddToScheme(c.Scheme),
		executionv1.AddToScheme(c.Scheme), cascadingv1.AddToScheme(c.Scheme), settingsv1alpha2.AddToScheme(c.Scheme),
		registryv1alpha1.AddToScheme(c.Scheme))
	if err != nil {
		return err
	}
	c.Client, err = client.New(c.Config, client.Options{Scheme: c.Scheme})
	return err
}

// readStorage reads from the cluster's state how to reach its S3 server.
func (c *Cluster) readStorage() error {
	raw, err := os.ReadFile(filepath.Join(c.dir, "cluster.json"))
	if err != nil {
		return err
	}
	var state struct {
		ObjectStore struct{ Endpoint, Bucket, AccessKey, SecretKey string } `json:"objectStore"`
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return err
	}
	s := state.ObjectStore
	c.Storage = Storage{
		Endpoint: strings.TrimPrefix(s.Endpoint, "http://"), Bucket: s.Bucket, Region: region, AccessKey: s.AccessKey, SecretKey: s.SecretKey,
	}
	return nil
}

// CRDs returns the CRDs of the chart by file name.
func CRDs() (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	return crdsIn(filepath.Join("charts", "scanyard", "crds"))
}

// InstallReportCRDs has the cluster keep PolicyReports and Reports as custom resources, as policy engines install them. It
// returns when they are served; a second call changes nothing.
func (c *Cluster) InstallReportCRDs(ctx context.Context) error {
	crds, err := crdsIn(filepath.Join("apis", "testdata", "reportcrds"))
	if err != nil {
		return err
	}
	return c.installCRDs(ctx, crds)
}

// InstallRegistryCRDs has the cluster serve the kinds of registry scanning; a second call changes nothing.
func (c *Cluster) InstallRegistryCRDs(ctx context.Context) error {
	crds, err := crdsIn(filepath.Join("charts", "registry", "crds"))
	if err != nil {
		return err
	}
	return c.installCRDs(ctx, crds)
}

// crdsIn reads the CRDs in a folder of the checkout.
func crdsIn(folder string) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(root(), folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no CRDs in %s: %w", folder, err)
	}
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		all[filepath.Base(f)] = crd
	}
	return all, nil
}

func (c *Cluster) installCRDs(ctx context.Context, crds map[string]*apiextensionsv1.CustomResourceDefinition) error {
	for _, crd := range crds {
		if err := c.Client.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for _, crd := range crds {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, crdTimeout, true, func(ctx context.Context) (bool, error) {
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
				return false, err
			}
			for _, cond := range crd.Status.Conditions {
				if cond.Type == apiextensionsv1.Established && cond.Status == apiextensionsv1.ConditionTrue {
					return true, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("CRD %s is not established: %w", crd.Name, err)
		}
	}
	return nil
}

// RunControllers runs the controllers of Kubernetes until the test ends, for tests of what they do. Others have the objects to themselves.
func (c *Cluster) RunControllers(t *testing.T) {
	t.Helper()
	if _, err := c.run(t.Context(), "start", controllerManager); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.run(context.WithoutCancel(t.Context()), "stop", controllerManager); err != nil {
			t.Error(err)
		}
	})
}

func (c *Cluster) run(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, c.binary, append(args, "--data-dir", c.dir)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("localcluster %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
