// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/aws/awstest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

// patience is how long a test waits for what has to come.
const patience = time.Minute

const (
	shop    = "arn:aws:ecs:eu-central-1:1:cluster/shop"
	office  = "arn:aws:ecs:eu-central-1:1:cluster/office"
	digest1 = "sha256:163482fed1f8e7c8558cc476a512b13768a8d2f7a04b8aab407ab02987c42382"
	digest2 = "sha256:7e9b6e7ba2842c91cf49f3e214d04a7a496f8214356f41d81a6e6dcad11f11e3"
	// juice is the name of the ScheduledScan of digest1.
	juice = "bkimminich-juice-sho-trivy-at-163482fed1f8e7c8558cc476a512b137"
)

// world is a namespace of a real API server, and queues.
type world struct {
	*testing.T
	*WithT

	namespace string
	aws       *awstest.Server
	queue     *awstest.Queue
	clock     *clocktesting.FakeClock
	// fail refuses a call to the API server where it returns an error.
	fail    atomic.Pointer[func(verb string) error]
	metrics *Metrics
	runner  *Runner
}

func newWorld(t *testing.T, queue string) *world {
	t.Helper()
	w := &world{T: t, WithT: NewWithT(t), clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	w.SetDefaultEventuallyTimeout(patience)
	w.SetDefaultEventuallyPollingInterval(10 * time.Millisecond)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	w.Expect(cluster.Client.Create(t.Context(), ns)).To(Succeed())
	w.namespace = ns.Name
	w.aws = awstest.New(t, w.clock)
	w.queue = w.aws.Queue(queue)
	return w
}

const oneConfig = `
kubernetes:
  scanConfigs:
  - {name: trivy, scanType: trivy-image, repeatInterval: 168h, parameters: ["{{ .ImageID }}"]}
`

// settings loads a configuration, as the program does.
func (w *world) settings(config string) *Settings {
	w.Helper()
	env := map[string]string{EnvQueueURL: w.queue.URL}
	s, err := Load("config.yaml", []byte(config), func(name string) string { return env[name] }, w.namespace)
	w.Expect(err).NotTo(HaveOccurred())
	return s
}

// start starts a process; the function it returns ends it, as the test's end does.
func (w *world) start(s *Settings) (stop func()) {
	w.Helper()
	c, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	refused := func(verb string) error {
		if f := w.fail.Load(); f != nil {
			return (*f)(verb)
		}
		return nil
	}
	api := interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := refused("create"); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := refused("patch"); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := refused("delete"); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if err := refused("list"); err != nil {
				return err
			}
			return c.List(ctx, l, opts...)
		},
	})
	clientset, err := kubernetes.NewForConfig(cluster.Config)
	w.Expect(err).NotTo(HaveOccurred())
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clientset.EventsV1()})
	ctx, cancel := context.WithCancel(w.Context())
	w.Cleanup(func() {
		cancel()
		broadcaster.Shutdown()
	})
	w.Expect(broadcaster.StartRecordingToSinkWithContext(ctx)).To(Succeed())
	w.metrics = NewMetrics(prometheus.NewRegistry())
	w.runner = NewRunner(Options{
		Settings: s, Client: api, Reader: api, Events: broadcaster.NewRecorder(cluster.Scheme, "test"),
		SQS: w.aws.SQS(), ECS: w.aws.ECS(), Clock: w.clock, Metrics: w.metrics,
	})
	return w.run(w.runner)
}

// run starts a Runner, which ends with the test or with the function returned.
func (w *world) run(r *Runner) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error)
	go func() { done <- r.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		w.Expect(<-done).To(Succeed())
		w.Eventually(w.aws.Waiting).Should(BeZero())
	})
	w.Cleanup(stop)
	return stop
}

// scans are the ScheduledScans of the namespace by name.
func (w *world) scans() map[string]executionv1.ScheduledScan {
	w.Helper()
	all := &executionv1.ScheduledScanList{}
	w.Expect(cluster.Client.List(w.Context(), all, client.InNamespace(w.namespace))).To(Succeed())
	byName := map[string]executionv1.ScheduledScan{}
	for i := range all.Items {
		byName[all.Items[i].Name] = all.Items[i]
	}
	return byName
}

func (w *world) names() []string {
	names := []string{}
	for name := range w.scans() {
		names = append(names, name)
	}
	return names
}

// counted is how many messages had a result.
func (w *world) counted(results ...string) int {
	n := 0.0
	for _, r := range results {
		n += testutil.ToFloat64(w.metrics.messages.WithLabelValues(r))
	}
	return int(n)
}

// sent puts an event in and waits until it has left the queue.
func (w *world) sent(group, body string) {
	w.Helper()
	id := w.queue.Send(group, body)
	w.Eventually(func() bool { return w.queue.Message(id).Deleted }).Should(BeTrue(), "the message leaves the queue")
}

// taskEvent is the event of a task.
func taskEvent(version int64, cluster, status string, containers ...container) string {
	return event2json(taskStateChange, task{ClusterARN: cluster, TaskARN: cluster + "/task", LastStatus: status, Version: version, Containers: containers})
}

func event2json(detailType string, detail any) string {
	out, err := json.Marshal(map[string]any{"version": "0", "id": "e", "source": "aws.ecs", "detail-type": detailType, "detail": detail})
	if err != nil {
		panic(err)
	}
	return string(out)
}

func runs(arn, status, image, digest string) container {
	return container{ARN: arn, Name: "c", LastStatus: status, Image: image, Digest: digest}
}
