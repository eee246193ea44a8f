// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/aws/awstest"
)

const juiceImage = "bkimminich/juice-shop:v15.0.0"

func TestOtherEventsAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events.fifo")
	w.start(w.settings(oneConfig))
	for _, kind := range []string{"ECS Container Instance State Change", "ECS Deployment State Change", "ECS Service Action", "Something of 2031"} {
		w.queue.Send("ecs", event2json(kind, []any{"a detail of another shape"}))
	}
	// All in one group: the last is read only when the others have left.
	w.sent("ecs", taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1)))
	w.Expect(w.names()).To(ConsistOf(juice))
	w.Expect(w.counted(resultIgnored)).To(Equal(4))
}

func TestDiscoveredIsAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	w.start(w.settings(oneConfig))
	w.sent("", taskEvent(1, shop, "RUNNING", runs("arn:1", "RUNNING", juiceImage, digest1)))
	w.Eventually(func() []string {
		all := &eventsv1.EventList{}
		w.Expect(cluster.Client.List(w.Context(), all, client.InNamespace(w.namespace))).To(Succeed())
		var notes []string
		for i := range all.Items {
			notes = append(notes, all.Items[i].Regarding.Name+" "+all.Items[i].Reason+": "+all.Items[i].Note)
		}
		return notes
	}).Should(ConsistOf(juice + " Discovered: The image docker.io/bkimminich/juice-shop@" + digest1 + " runs in the container arn:1"))
}

// TestStateSurvivesRestart: secureCodeBox's state is in memory, so that stops after a
// restart change nothing and scans stay for ever.
func TestStateSurvivesRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	stop := w.start(w.settings(oneConfig))
	w.sent("", taskEvent(3, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1)))
	w.sent("", taskEvent(3, office, "RUNNING", runs("2", "RUNNING", "bkimminich/juice-shop:latest", digest1)))
	stop()
	stop = w.start(w.settings(oneConfig))
	w.sent("", taskEvent(4, shop, "STOPPED", runs("1", "STOPPED", juiceImage, digest1)))
	w.Expect(w.names()).To(ConsistOf(juice), "another container runs the image")
	stop()
	w.start(w.settings(oneConfig))
	w.sent("", taskEvent(2, office, "PENDING", runs("2", "PENDING", juiceImage, "")))
	w.Expect(w.names()).To(ConsistOf(juice), "what is older than what is known changes nothing")
	w.sent("", taskEvent(4, office, "STOPPED", runs("2", "STOPPED", juiceImage, digest1)))
	w.Expect(w.names()).To(BeEmpty())
}

func TestLateAndRepeatedEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	w.start(w.settings(oneConfig))
	run := taskEvent(3, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1))
	end := taskEvent(5, shop, "STOPPED", runs("1", "STOPPED", juiceImage, digest1))
	w.sent("", run)
	w.sent("", run)
	w.Expect(w.names()).To(ConsistOf(juice))
	w.sent("", end)
	w.sent("", run) // overtaken by the end
	w.sent("", end)
	w.Expect(w.names()).To(BeEmpty())
	w.Expect(testutil.ToFloat64(w.metrics.stale)).To(BeEquivalentTo(1))
	w.Expect(testutil.ToFloat64(w.metrics.changes.WithLabelValues(changeCreated))).To(BeEquivalentTo(1))
}

// TestFailingMessage: what makes no sense stays for a bounded number of tries, and holds
// up its own group only.
func TestFailingMessage(t *testing.T) {
	for name, body := range map[string]string{
		"NoJSON":           "{",
		"NoEvent":          `{"Records":[]}`,
		"NoDetail":         `{"detail-type":"ECS Task State Change"}`,
		"UnknownState":     taskEvent(1, shop, "RUNNING", runs("1", "PAUSED", juiceImage, digest1)),
		"NoContainer":      taskEvent(1, shop, "RUNNING", runs("", "RUNNING", juiceImage, digest1)),
		"BadImage":         taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", "../../etc/passwd", "")),
		"BadDigest":        taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", juiceImage, "sha256:<script>")),
		"VersionIsNoCount": `{"detail-type":"ECS Task State Change","detail":{"version":"new"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "events.fifo")
			w.start(w.settings(oneConfig))
			bad := w.queue.Send("a", body)
			next := w.queue.Send("a", taskEvent(1, shop, "RUNNING", runs("2", "RUNNING", juiceImage, digest1)))
			for tries := 1; tries <= defaultMaxReceives; tries++ {
				w.Eventually(func() int { return w.queue.Message(bad).Receives }).Should(Equal(tries))
				w.Eventually(func() int { return w.counted(resultFailed, resultDiscarded) }).Should(Equal(tries))
				w.sent(fmt.Sprint("b", tries), event2json("of another group", nil))
				if tries < defaultMaxReceives {
					w.Expect(w.queue.Message(bad).Deleted).To(BeFalse())
					w.Expect(w.queue.Message(next).Receives).To(BeZero())
					w.clock.Step(defaultVisibility + time.Second)
				}
			}
			w.Eventually(func() bool { return w.queue.Message(bad).Deleted && w.queue.Message(next).Deleted }).Should(BeTrue())
			w.Expect(w.counted(resultDiscarded)).To(Equal(1))
			w.Expect(w.names()).To(ConsistOf(juice))
		})
	}
}

func TestRedrivePolicyTakesWhatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	dead := w.aws.Queue("dead")
	w.queue.Redrive(dead, 7)
	w.start(w.settings(oneConfig))
	id := w.queue.Send("", "{")
	for tries := 1; tries <= 7; tries++ {
		w.Eventually(func() int { return w.counted(resultFailed) }).Should(Equal(tries))
		w.clock.Step(defaultVisibility + time.Second)
	}
	w.Eventually(dead.Left).Should(Equal(1))
	w.Expect(dead.Message(id).Body).To(Equal("{"))
	w.Expect(w.counted(resultDiscarded)).To(BeZero())
}

// TestOneBadContainer: the others of a task count, and the scan configurations that can be rendered too.
func TestOneBadContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	w.start(w.settings(oneConfig + `
  - {name: bad, scanType: x, repeatInterval: 1h, labels: {arn: "{{ .Target.Id }}"}}
`))
	id := w.queue.Send("", taskEvent(1, shop, "RUNNING", runs("arn:x", "RUNNING", juiceImage, digest1), runs("2", "WHO KNOWS", juiceImage, digest1)))
	w.Eventually(func() int { return w.counted(resultFailed) }).Should(Equal(1))
	w.Expect(w.queue.Message(id).Deleted).To(BeFalse())
	w.Expect(w.names()).To(ConsistOf(juice))
}

// TestAPIServerUnavailable: a message is worked on until it succeeds, is kept from others
// meanwhile, and does not count as one that makes no sense.
func TestAPIServerUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events.fifo")
	var calls atomic.Int32
	away := func(string) error {
		calls.Add(1)
		return errors.New("connection refused")
	}
	w.start(w.settings(oneConfig))
	w.sent("ecs", event2json("the program has begun", nil))
	w.fail.Store(&away)
	first := w.queue.Send("ecs", taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1)))
	second := w.queue.Send("ecs", taskEvent(2, shop, "STOPPED", runs("1", "STOPPED", juiceImage, digest1)))
	w.Eventually(func() int { w.clock.Step(500 * time.Millisecond); return int(calls.Load()) }).Should(BeNumerically(">", 10))
	w.Expect(w.aws.Calls("ChangeMessageVisibility")).To(BeNumerically(">", 3))
	w.Expect(w.queue.Message(first).Receives).To(Equal(1))
	w.Expect(w.queue.Message(second).Receives).To(BeZero())
	w.Expect(w.runner.Healthz(nil)).NotTo(Succeed())
	w.fail.Store(nil)
	w.Eventually(func() int { w.clock.Step(500 * time.Millisecond); return w.queue.Left() }).Should(BeZero())
	w.Expect(w.counted(resultProcessed)).To(Equal(2))
	w.Expect(w.names()).To(BeEmpty())
	w.Expect(w.runner.Healthz(nil)).To(Succeed())
}

// TestEndGivesBack: a process that ends in the middle leaves its message to the next at once.
func TestEndGivesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events.fifo")
	var calls atomic.Int32
	away := func(verb string) error {
		if verb == "list" {
			return nil
		}
		calls.Add(1)
		return errors.New("connection refused")
	}
	w.fail.Store(&away)
	settings := w.settings(oneConfig)
	settings.AWS.MaxNumberOfMessages = 10
	stop := w.start(settings)
	w.queue.Send("ecs", taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1)))
	w.queue.Send("ecs", taskEvent(1, shop, "RUNNING", runs("2", "RUNNING", "nginx", digest2)))
	w.Eventually(calls.Load).Should(BeNumerically(">", 0))
	stop()
	w.fail.Store(nil)
	w.start(settings) // the clock stands still
	w.Eventually(w.queue.Left).Should(BeZero())
	w.Expect(w.scans()).To(HaveLen(2))
}

func TestQueueAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	var away atomic.Bool
	away.Store(true)
	w.aws.Fault = func(string) int {
		if away.Load() {
			return http.StatusForbidden
		}
		return 0
	}
	w.queue.Send("", taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1)))
	w.start(w.settings(oneConfig))
	w.Eventually(func() error { return w.runner.Healthz(nil) }).ShouldNot(Succeed())
	away.Store(false)
	w.Eventually(func() int { w.clock.Step(time.Second); return w.queue.Left() }).Should(BeZero())
	w.Expect(w.names()).To(ConsistOf(juice))
	w.Expect(w.runner.Healthz(nil)).To(Succeed())
}

// TestConfigurationReachesWhatExists: new scan configurations, changed ones and ones that are gone.
func TestConfigurationReachesWhatExists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	stop := w.start(w.settings(oneConfig + `
  - {name: gone, scanType: x, repeatInterval: 1h}
`))
	w.sent("", taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1)))
	w.Expect(w.scans()).To(HaveLen(2))
	suspended := w.scans()[juice]
	suspended.Spec.Suspend = new(true)
	suspended.Spec.ScanSpec.Parameters = []string{"changed by hand"}
	w.Expect(cluster.Client.Update(w.Context(), &suspended)).To(Succeed())
	stop()

	stop = w.start(w.settings(oneConfig))
	w.Eventually(w.names).Should(ConsistOf(juice))
	w.Expect(w.scans()[juice].Spec.ScanSpec.Parameters).To(Equal([]string{"changed by hand"}), "the configuration has not changed for this one")
	stop()

	w.start(w.settings(`
kubernetes:
  scanConfigs:
  - {name: trivy, scanType: trivy-image, repeatInterval: 24h, parameters: ["--quiet", "{{ .ImageID }}"], labels: {of: "{{ .Image.Version }}"}}
  - {name: sbom, scanType: trivy-sbom-image, repeatInterval: 24h}
`))
	w.Eventually(w.scans).Should(HaveLen(2))
	w.Eventually(func() string { return w.scans()[juice].Spec.Interval }).Should(Equal("24h0m0s"))
	got := w.scans()[juice]
	w.Expect(got.Spec.ScanSpec.Parameters).To(Equal([]string{"--quiet", "docker.io/bkimminich/juice-shop@" + digest1}))
	w.Expect(got.Labels).To(HaveKeyWithValue("of", "v15.0.0"))
	w.Expect(got.Spec.Suspend).To(HaveValue(BeTrue()), "what is suspended stays so")
	w.sent("", taskEvent(2, shop, "STOPPED", runs("1", "STOPPED", juiceImage, digest1)))
	w.Expect(w.names()).To(BeEmpty())
}

// TestDeletedScheduledScanIsRecreated at the next look, as long as the image runs.
func TestDeletedScheduledScanIsRecreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	settings := w.settings(oneConfig)
	settings.AWS.WaitTime.Duration = time.Second
	w.start(settings)
	w.sent("", taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1)))
	scan := w.scans()[juice]
	w.Expect(cluster.Client.Delete(w.Context(), &scan)).To(Succeed())
	w.Expect(w.names()).To(BeEmpty())
	w.clock.Step(defaultResync)
	w.Eventually(w.names).Should(ConsistOf(juice))
}

// TestChangesByOtherClients: an object that another client has changed, deleted or made again.
func TestChangesByOtherClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	w.start(w.settings(oneConfig))
	w.sent("", taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1)))
	touched := w.scans()[juice]
	touched.Annotations["note"] = "mine"
	w.Expect(cluster.Client.Update(w.Context(), &touched)).To(Succeed())
	w.sent("", taskEvent(1, shop, "RUNNING", runs("2", "RUNNING", juiceImage, digest1)))
	w.Expect(w.scans()[juice].Annotations).To(HaveKeyWithValue("note", "mine"))

	w.Expect(cluster.Client.Delete(w.Context(), &touched)).To(Succeed())
	w.sent("", taskEvent(1, shop, "RUNNING", runs("3", "RUNNING", juiceImage, digest1)))
	again := w.scans()[juice]
	w.Expect(again.UID).NotTo(Equal(touched.UID))

	again.ObjectMeta = metav1.ObjectMeta{Name: again.Name, Namespace: again.Namespace, Labels: again.Labels, Annotations: again.Annotations}
	w.Expect(cluster.Client.Delete(w.Context(), &again)).To(Succeed())
	w.Expect(cluster.Client.Create(w.Context(), &again)).To(Succeed())
	w.sent("", taskEvent(2, shop, "STOPPED", runs("1", "STOPPED", juiceImage, digest1), runs("2", "STOPPED", juiceImage, digest1), runs("3", "STOPPED", juiceImage, digest1)))
	w.Expect(w.names()).To(BeEmpty())
}

func scheduled(namespace string, labels map[string]string) *executionv1.ScheduledScan {
	return &executionv1.ScheduledScan{
		ObjectMeta: metav1.ObjectMeta{Name: juice, Namespace: namespace, Labels: labels},
		Spec:       executionv1.ScheduledScanSpec{Interval: "12h", ScanSpec: &executionv1.ScanSpec{ScanType: "mine", Parameters: []string{}}},
	}
}

// TestNameTaken: what people or a discovery for Kubernetes have made stays theirs; what
// secureCodeBox's discovery for AWS has left is taken over.
func TestNameTaken(t *testing.T) {
	managed := map[string]string{LabelManagedBy: ManagedBy}
	for name, c := range map[string]struct {
		labels    map[string]string
		owner     string
		takenOver bool
	}{
		"People":                     {owner: "kubectl"},
		"ForKubernetes":              {labels: managed, owner: "scanyard-autodiscovery-second"},
		"SecureCodeBoxForKubernetes": {labels: managed, owner: "manager"},
		"SecureCodeBoxForAWS":        {labels: managed, owner: "service", takenOver: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "events")
			w.Expect(cluster.Client.Create(w.Context(), scheduled(w.namespace, c.labels), client.FieldOwner(c.owner))).To(Succeed())
			w.start(w.settings(oneConfig))
			w.sent("", taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1)))
			if !c.takenOver {
				w.Expect(w.scans()[juice].Spec.ScanSpec.ScanType).To(Equal("mine"))
			} else {
				w.Expect(w.scans()[juice].Spec.ScanSpec.ScanType).To(Equal("trivy-image"))
			}
			w.sent("", taskEvent(2, shop, "STOPPED", runs("1", "STOPPED", juiceImage, digest1)))
			w.Expect(w.scans()).To(HaveLen(map[bool]int{true: 0, false: 1}[c.takenOver]))
		})
	}
}

func TestDigestThatComesLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	w.start(w.settings(oneConfig))
	w.sent("", taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", "nginx:1.27", "")))
	w.Expect(w.names()).To(ConsistOf(HavePrefix("library-nginx-trivy-at-")))
	without := w.names()[0]
	w.sent("", taskEvent(2, shop, "RUNNING", runs("1", "RUNNING", "nginx:1.27", digest2)))
	w.Expect(w.names()).To(ConsistOf(HavePrefix("library-nginx-trivy-at-7e9b6e7b")))
	w.Expect(w.names()).NotTo(ContainElement(without))
}

func ecsTask(cluster, arn string, version int64, status, image, digest string) awstest.Task {
	return awstest.Task{ARN: arn, Cluster: cluster, LastStatus: "RUNNING", Version: version, Containers: []awstest.Container{
		{ARN: arn + "/c", Name: "c", LastStatus: status, Image: image, ImageDigest: digest},
	}}
}

// TestSync: what ran before there was a queue is found, and what ended unseen goes.
func TestSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	stop := w.start(w.settings(oneConfig))
	w.sent("", taskEvent(3, shop, "RUNNING", runs("ended unseen", "RUNNING", juiceImage, digest1)))
	w.sent("", taskEvent(3, "arn:aws:ecs:eu-central-1:2:cluster/of-another-account", "RUNNING", runs("elsewhere", "RUNNING", "redis", digest2)))
	stop()
	w.aws.SetTasks(shop, ecsTask(shop, "a", 2, "RUNNING", "nginx", digest1), ecsTask(shop, "b", 2, "PENDING", "caddy", ""), ecsTask(shop, "c", 2, "RUNNING", "httpd", digest2))
	w.aws.SetTasks(office, ecsTask(office, "d", 2, "RUNNING", "nginx", digest1))
	w.aws.SetTasks("arn:aws:ecs:eu-central-1:1:cluster/third")
	settings := w.settings(oneConfig + "  resyncInterval: 1m\naws: {sync: {enabled: true}, waitTime: 1s}\n")
	w.start(settings)
	w.Eventually(w.names).Should(ConsistOf(HavePrefix("library-nginx-trivy-at-1634"), HavePrefix("library-httpd-trivy-at-7e9b"), HavePrefix("library-redis-trivy-at-7e9b")))

	// A container of a recent event is not in the listing yet, and stays. A container that has ended
	// since is still listed, and does not come back.
	w.sent("", taskEvent(3, shop, "RUNNING", runs("fresh", "RUNNING", juiceImage, digest1)))
	w.sent("", taskEvent(3, shop, "STOPPED", runs("c/c", "STOPPED", "httpd", digest2)))
	w.aws.SetTasks(shop, ecsTask(shop, "c", 2, "RUNNING", "httpd", digest2))
	w.clock.Step(time.Minute)
	w.Eventually(func() float64 { return testutil.ToFloat64(w.metrics.syncs.WithLabelValues("ok")) }).Should(BeEquivalentTo(2))
	w.sent("", event2json("after the sync", nil))
	w.Expect(w.names()).NotTo(ContainElement(HavePrefix("library-httpd")))
	w.Expect(w.names()).To(ContainElement(HavePrefix("library-nginx")), "it runs in the other cluster")
	w.Expect(w.names()).To(ContainElement(juice), "it is in a recent event")
}

func TestSyncNotAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	w.aws.Fault = func(operation string) int {
		if operation == "ListTasks" {
			return http.StatusForbidden
		}
		return 0
	}
	w.start(w.settings(oneConfig + "aws: {sync: {enabled: true, clusters: [" + shop + "]}}\n"))
	w.sent("", taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1)))
	w.Expect(w.names()).To(ConsistOf(juice))
	w.Expect(testutil.ToFloat64(w.metrics.syncs.WithLabelValues("error"))).To(BeEquivalentTo(1))
}
