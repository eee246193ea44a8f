// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/internal/fixturetest"
)

type fixture struct {
	Name    string          `json:"name"`
	Config  json.RawMessage `json:"config"`
	Receive struct {
		MaxNumberOfMessages int    `json:"maxNumberOfMessages"`
		QueueURL            string `json:"queueUrl"`
		VisibilityTimeout   int    `json:"visibilityTimeout"`
		WaitTimeSeconds     int    `json:"waitTimeSeconds"`
	} `json:"receive"`
	Messages []string `json:"messages"`
	Expected []struct {
		MessageDeleted bool             `json:"messageDeleted"`
		ScheduledScans []map[string]any `json:"scheduledScans"`
	} `json:"expected"`
}

// TestFixtureAutodiscoveryAWS runs the shared cases against a real API server. Two things
// differ on purpose: messages with other types of events leave the queue, and images
// without digest get a name that the API server takes (secureCodeBox's ends in a hyphen).
func TestFixtureAutodiscoveryAWS(t *testing.T) {
	for name, c := range fixturetest.Cases[fixture](t, "autodiscovery-aws") {
		t.Run(name+" "+c.Name, func(t *testing.T) {
			t.Parallel()
			testFixture(t, c)
		})
	}
}

func testFixture(t *testing.T, c fixture) {
	w := newWorld(t, filepath.Base(c.Receive.QueueURL))
	settings, err := Load("config.yaml", c.Config, func(name string) string {
		return map[string]string{EnvQueueURL: w.queue.URL}[name]
	}, "")
	w.Expect(err).NotTo(HaveOccurred())
	namespace := settings.Kubernetes.Namespace
	settings.Kubernetes.Namespace = w.namespace
	w.start(settings)
	all := []string{resultProcessed, resultIgnored, resultFailed, resultDiscarded}
	for i, body := range c.Messages {
		id := w.queue.Send(body, body) // a group each: one that stays holds no other up
		w.Eventually(func() int { return w.counted(all...) }).Should(Equal(i + 1))
		deleted := c.Expected[i].MessageDeleted || isOtherEvent(body)
		if deleted {
			w.Eventually(func() bool { return w.queue.Message(id).Deleted }).Should(BeTrue(), "the message leaves the queue")
		} else {
			w.Expect(w.counted(resultFailed)).To(Equal(1), "the message stays in the queue")
			w.Expect(w.queue.Message(id).Deleted).To(BeFalse())
		}
		want := map[string]any{}
		for _, s := range c.Expected[i].ScheduledScans {
			meta := s["metadata"].(map[string]any)
			w.Expect(meta["namespace"]).To(Equal(namespace))
			delete(meta, "namespace")
			want[meta["name"].(string)] = pruned(s)
		}
		got := map[string]any{}
		for name, s := range w.scans() {
			if stem := name[:strings.LastIndex(name, at)+len(at)]; want[stem] != nil {
				name, s.Name = stem, stem // secureCodeBox has no digest to put here
			}
			got[name] = pruned(withoutAdditions(t, s))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ScheduledScans after message %d (-want +got):\n%s", i+1, diff)
		}
	}
	request := w.aws.Last("ReceiveMessage")
	w.Expect(request["QueueUrl"]).To(Equal(w.queue.URL))
	w.Expect(request["MaxNumberOfMessages"]).To(BeEquivalentTo(c.Receive.MaxNumberOfMessages))
	w.Expect(request["VisibilityTimeout"]).To(BeEquivalentTo(c.Receive.VisibilityTimeout))
	w.Expect(request["WaitTimeSeconds"]).To(BeEquivalentTo(c.Receive.WaitTimeSeconds))
}

func isOtherEvent(body string) bool {
	e, err := parseEvent(body)
	return err == nil && e.DetailType != taskStateChange
}

// withoutAdditions is what the cases have of a ScheduledScan: nothing that the API server or this discovery adds.
func withoutAdditions(t *testing.T, s executionv1.ScheduledScan) map[string]any {
	t.Helper()
	annotations := maps.Clone(s.Annotations)
	for _, ours := range []string{AnnotationTarget, AnnotationContainers, AnnotationConfig} {
		if annotations[ours] == "" {
			t.Errorf("ScheduledScan %s has no annotation %s", s.Name, ours)
		}
		delete(annotations, ours)
	}
	s.Spec.Suspend, s.Spec.ScanSpec.Suspend = nil, nil
	s.Spec.ScanSpec.ResourceMode = nil
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "execution.securecodebox.io/v1", "kind": "ScheduledScan", "spec": s.Spec,
		"metadata": map[string]any{"name": s.Name, "labels": s.Labels, "annotations": annotations},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// pruned leaves out what counts as absent.
func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, member := range v {
			if member = pruned(member); member != nil {
				out[key] = member
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = pruned(out[i])
		}
		if len(out) > 0 {
			return out
		}
		return nil
	default:
		return v
	}
}
