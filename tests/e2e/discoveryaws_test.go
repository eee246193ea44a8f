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
	"testing"
	"time"

	"github.com/Admiral-Piett/goaws/app/gosqs"
	"github.com/Admiral-Piett/goaws/app/servertest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

// sqs is an SQS server that others have written.
type sqs struct {
	t      *testing.T
	server *servertest.Server
}

func startSQS(t *testing.T) *sqs {
	t.Helper()
	server, err := servertest.New("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	quit := make(chan bool)
	go gosqs.PeriodicTasks(100*time.Millisecond, quit) // makes messages visible again
	t.Cleanup(func() {
		close(quit)
		if err := server.Quit(); err != nil {
			t.Error(err)
		}
	})
	return &sqs{t: t, server: server}
}

// call asks for an action in the form that SQS had before its JSON protocol, which the
// program under test speaks.
func (s *sqs) call(action string, fields ...string) string {
	s.t.Helper()
	form := url.Values{"Action": {action}}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.server.URL()+"/", strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s: %s (%v)", action, resp.Status, body, err)
	}
	return string(body)
}

// left is how many messages are in a queue, hidden ones included.
func (s *sqs) left(queue string) int {
	s.t.Helper()
	var answer struct {
		Attributes []struct{ Name, Value string } `xml:"GetQueueAttributesResult>Attribute"`
	}
	body := s.call("GetQueueAttributes", "QueueUrl", queue, "AttributeName.1", "All")
	if err := xml.Unmarshal([]byte(body), &answer); err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, a := range answer.Attributes {
		if a.Name == "ApproximateNumberOfMessages" || a.Name == "ApproximateNumberOfMessagesNotVisible" {
			var some int
			if _, err := fmt.Sscan(a.Value, &some); err != nil {
				s.t.Fatal(err)
			}
			n += some
		}
	}
	return n
}

func (s *sqs) send(queue, body string) {
	s.t.Helper()
	s.call("SendMessage", "QueueUrl", queue, "MessageBody", body, "MessageGroupId", "ecs", "MessageDeduplicationId", strconv.FormatInt(time.Now().UnixNano(), 10))
}

// ecsEvent is the event of a task with one container.
func ecsEvent(version int, status string) string {
	return fmt.Sprintf(`{"version":"0","id":"e","detail-type":"ECS Task State Change","source":"aws.ecs","detail":{
		"clusterArn":"arn:aws:ecs:eu-central-1:1:cluster/shop","taskArn":"arn:aws:ecs:eu-central-1:1:task/shop/1","lastStatus":%[2]q,"version":%[1]d,
		"containers":[{"containerArn":"arn:aws:ecs:eu-central-1:1:container/shop/1/2","name":"web","lastStatus":%[2]q,"image":"nginx:1.27",
		"imageDigest":"sha256:163482fed1f8e7c8558cc476a512b13768a8d2f7a04b8aab407ab02987c42382"}]}}`, version, status)
}

// TestAutoDiscoveryAWS installs the chart and has an image scanned that an event speaks
// of. The queue is a FIFO one of an SQS server that is not ours, with events of other types
// and a message that is none in front of it. A pod that is killed loses nothing. The
// rights that the chart gives are enough.
func TestAutoDiscoveryAWS(t *testing.T) {
	t.Parallel()
	server := startSQS(t)
	server.call("CreateQueue", "QueueName", "ecs.fifo", "Attribute.1.Name", "VisibilityTimeout", "Attribute.1.Value", "2")
	queue := server.server.URL() + "/100010001000/ecs.fifo"
	ns := namespace(t)
	chart(t, "test-scan", ns, nil)
	server.send(queue, `{"detail-type":"ECS Container Instance State Change","source":"aws.ecs","detail":{}}`)
	server.send(queue, ecsEvent(3, "RUNNING"))
	discoverAWS(t, ns, server.server.URL(), queue)

	const name = "library-nginx-test-scan-at-163482fed1f8e7c8558cc476a512b13768a"
	scan := wantDone(t, runOf(t, ns, name))
	if got := scan.Labels["image"]; got != "library.nginx" {
		t.Errorf("the Scan has the label image: %q", got)
	}
	eventually(t, "the queue to be empty", func(context.Context) (bool, error) { return server.left(queue) == 0, nil })

	killPods(t, ns, "app.kubernetes.io/name=auto-discovery-cloud-aws")
	server.send(queue, ecsEvent(2, "PENDING")) // has been overtaken
	server.send(queue, ecsEvent(4, "STOPPED"))
	eventually(t, "the ScheduledScan to go", func(ctx context.Context) (bool, error) { return len(scheduledScans(ctx, t, ns)) == 0, nil })
	eventually(t, "the queue to be empty", func(context.Context) (bool, error) { return server.left(queue) == 0, nil })
	for line := range strings.Lines(podLogs(t, ns, client.MatchingLabels{"app.kubernetes.io/name": "auto-discovery-cloud-aws"})) {
		if lower := strings.ToLower(line); strings.Contains(lower, "forbidden") || strings.Contains(lower, "panic") || strings.Contains(lower, `"level":"error"`) {
			t.Errorf("the discovery logged: %s", line)
		}
	}
}

func discoverAWS(t *testing.T, ns, endpoint, queue string) {
	t.Helper()
	free, err := ports.Free(2)
	if err != nil {
		t.Fatal(err)
	}
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "aws-credentials"},
		StringData: map[string]string{"aws-access-key-id": "AKIDTEST", "aws-secret-access-key": "secret"},
	})
	release(t, install.Release{Chart: "auto-discovery-cloud-aws", Namespace: ns, Values: map[string]any{
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
func killPods(t *testing.T, ns, selector string) {
	t.Helper()
	pods, err := w.kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d pods of %s: %v", len(pods.Items), selector, err)
	}
	for i := range pods.Items {
		if err := w.admin.Delete(t.Context(), &pods.Items[i], client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
}
