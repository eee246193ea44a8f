// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/Admiral-Piett/goaws/app/gosqs"
	"github.com/Admiral-Piett/goaws/app/servertest"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

// sqs is an SQS server that others have written.
type sqs struct {
	server *servertest.Server
}

func startSQS() *sqs {
	GinkgoHelper()
	server, err := servertest.New("127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	quit := make(chan bool)
	go gosqs.PeriodicTasks(100*time.Millisecond, quit) // makes messages visible again
	DeferCleanup(func() {
		close(quit)
		Expect(server.Quit()).To(Succeed())
	})
	return &sqs{server: server}
}

// call asks for an action in the form that SQS had before its JSON protocol, which the
// program under test speaks.
func (s *sqs) call(ctx context.Context, action string, fields ...string) string {
	GinkgoHelper()
	form := url.Values{"Action": {action}}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.URL()+"/", strings.NewReader(form.Encode()))
	Expect(err).NotTo(HaveOccurred())
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.StatusCode).To(Equal(http.StatusOK), "%s: %s: %s (%v)", action, resp.Status, body, err)
	return string(body)
}

// left is how many messages are in a queue, hidden ones included.
func (s *sqs) left(ctx context.Context, queue string) int {
	GinkgoHelper()
	var answer struct {
		Attributes []struct{ Name, Value string } `xml:"GetQueueAttributesResult>Attribute"`
	}
	body := s.call(ctx, "GetQueueAttributes", "QueueUrl", queue, "AttributeName.1", "All")
	Expect(xml.Unmarshal([]byte(body), &answer)).To(Succeed())
	n := 0
	for _, a := range answer.Attributes {
		if a.Name == "ApproximateNumberOfMessages" || a.Name == "ApproximateNumberOfMessagesNotVisible" {
			var some int
			Expect(fmt.Sscan(a.Value, &some)).Error().NotTo(HaveOccurred())
			n += some
		}
	}
	return n
}

func (s *sqs) send(ctx context.Context, queue, body string) {
	GinkgoHelper()
	s.call(ctx, "SendMessage", "QueueUrl", queue, "MessageBody", body, "MessageGroupId", "ecs", "MessageDeduplicationId", strconv.FormatInt(time.Now().UnixNano(), 10))
}

// ecsEvent is the event of a task with one container.
func ecsEvent(version int, status string) string {
	return fmt.Sprintf(`{"version":"0","id":"e","detail-type":"ECS Task State Change","source":"aws.ecs","detail":{
		"clusterArn":"arn:aws:ecs:eu-central-1:1:cluster/shop","taskArn":"arn:aws:ecs:eu-central-1:1:task/shop/1","lastStatus":%[2]q,"version":%[1]d,
		"containers":[{"containerArn":"arn:aws:ecs:eu-central-1:1:container/shop/1/2","name":"web","lastStatus":%[2]q,"image":"nginx:1.27",
		"imageDigest":"sha256:163482fed1f8e7c8558cc476a512b13768a8d2f7a04b8aab407ab02987c42382"}]}}`, version, status)
}

var _ = Describe("Auto-discovery on AWS", Label("discovery"), func() {
	// Installs the chart and has an image scanned that an event speaks
	// of. The queue is a FIFO one of an SQS server that is not ours, with events of other types
	// and a message that is none in front of it. A pod that is killed loses nothing. The
	// rights that the chart gives are enough.
	It("scans the image that an event speaks of, and loses nothing when its pod is killed", func(ctx SpecContext) {
		server := startSQS()
		server.call(ctx, "CreateQueue", "QueueName", "ecs.fifo", "Attribute.1.Name", "VisibilityTimeout", "Attribute.1.Value", "2")
		queue := server.server.URL() + "/100010001000/ecs.fifo"
		ns := namespace(ctx)
		chart(ctx, "test-scan", ns, nil)
		server.send(ctx, queue, `{"detail-type":"ECS Container Instance State Change","source":"aws.ecs","detail":{}}`)
		server.send(ctx, queue, ecsEvent(3, "RUNNING"))
		discoverAWS(ctx, ns, server.server.URL(), queue)

		const name = "library-nginx-test-scan-at-163482fed1f8e7c8558cc476a512b13768a"
		scan := wantDone(ctx, runOf(ctx, ns, name))
		if got := scan.Labels["image"]; got != "library.nginx" {
			Fail(fmt.Sprintf("the Scan has the label image: %q", got))
		}
		eventually(ctx, "the queue to be empty", func(context.Context) (bool, error) { return server.left(ctx, queue) == 0, nil })

		killPods(ctx, ns, "app.kubernetes.io/name=auto-discovery-cloud-aws")
		server.send(ctx, queue, ecsEvent(2, "PENDING")) // has been overtaken
		server.send(ctx, queue, ecsEvent(4, "STOPPED"))
		eventually(ctx, "the ScheduledScan to go", func(ctx context.Context) (bool, error) { return len(scheduledScans(ctx, ns)) == 0, nil })
		eventually(ctx, "the queue to be empty", func(context.Context) (bool, error) { return server.left(ctx, queue) == 0, nil })
		for line := range strings.Lines(podLogs(ctx, ns, client.MatchingLabels{"app.kubernetes.io/name": "auto-discovery-cloud-aws"})) {
			if lower := strings.ToLower(line); strings.Contains(lower, "forbidden") || strings.Contains(lower, "panic") || strings.Contains(lower, `"level":"error"`) {
				Fail(fmt.Sprintf("the discovery logged: %s", line))
			}
		}
	})
})

func discoverAWS(ctx context.Context, ns, endpoint, queue string) {
	GinkgoHelper()
	free, err := ports.Free(2)
	Expect(err).NotTo(HaveOccurred())
	create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "aws-credentials"},
		StringData: map[string]string{"aws-access-key-id": "AKIDTEST", "aws-secret-access-key": "secret"},
	})
	release(ctx, install.Release{Chart: "auto-discovery-cloud-aws", Namespace: ns, Values: map[string]any{
		"config": map[string]any{
			"aws":     map[string]any{"queueUrl": queue, "region": "eu-central-1", "visibilityTimeout": "2s", "waitTime": "1s"},
			"health":  map[string]any{"healthProbeBindAddress": fmt.Sprintf(":%d", free[0])},
			"metrics": map[string]any{"bindAddress": fmt.Sprintf(":%d", free[1])},
			"kubernetes": map[string]any{"scanConfigs": []map[string]any{{
				"name": "test-scan", "scanType": "test-scan", "repeatInterval": "168h",
				"labels": map[string]any{"image": `{{ .Image.ShortName | replace "/" "." }}`},
			}}},
		},
		"extraEnv": []map[string]any{{"name": "AWS_ENDPOINT_URL_SQS", "value": endpoint}},
	}})
}

// killPods ends pods without a chance to tidy up.
func killPods(ctx context.Context, ns, selector string) {
	GinkgoHelper()
	pods, err := w.kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: selector})
	Expect(err).NotTo(HaveOccurred())
	Expect(pods.Items).NotTo(BeEmpty(), "%d pods of %s: %v", len(pods.Items), selector, err)
	for i := range pods.Items {
		Expect(w.admin.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))).To(Succeed())
	}
}
