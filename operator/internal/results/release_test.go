// SPDX-License-Identifier: Apache-2.0

package results_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	api "github.com/scanyard/scanyard/apis/results"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/results"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/settings"
)

// sinkID is that of the one sink of the cluster in these tests.
const sinkID = "cluster/hub"

// releasing lets results go, of Scans that one sink has.
func releasing(c client.Client) func(*results.Options) {
	return func(o *results.Options) {
		o.Release = results.Releasing{
			Client: c, Clock: clock.RealClock{},
			Effective: func(context.Context, string) (*settings.Effective, error) {
				return &settings.Effective{Forwarding: settings.Forwarding{
					Sinks: []settings.EffectiveSink{{ID: sinkID, Name: "hub"}}, AfterForwarding: settingsv1alpha2.AfterForwardingRemove,
				}}, nil
			},
			Compared: func(context.Context, *executionv1.Scan) (bool, error) { return false, nil },
		}
	}
}

// forwarded stores findings and says that the sink has them. It returns the request that follows.
func (w *world) forwarded(dryRun bool) *api.ReleaseRequest {
	w.Helper()
	w.upload("findings.json", "[]")
	object, found, err := w.store.Stat(w.Context(), store.OwnerOf(w.scan), "findings.json")
	if must(w.T, err); !found {
		w.Fatal("nothing is stored")
	}
	before := w.scan.DeepCopy()
	w.scan.Status.FindingDownloadLink, w.scan.Status.RawResultDownloadLink = "https://s3/f", "https://s3/r"
	w.scan.Status.Forwarding = []executionv1.SinkProgress{{
		Sink: sinkID, Revision: 1, ETag: object.ETag, Records: 1, Chain: "c0", Verdict: executionv1.VerdictComplete,
		CompletedAt: &metav1.Time{Time: time.Now()}, Seal: "by the test",
	}}
	must(w.T, cluster.Client.Status().Patch(w.Context(), w.scan, client.MergeFrom(before)))
	return &api.ReleaseRequest{
		DryRun: dryRun, Namespace: w.scan.Namespace, Name: w.scan.Name, UID: string(w.scan.UID), Revision: 1, ETag: object.ETag, Records: 1, Chain: "c0",
		Sinks: []string{sinkID},
	}
}

// release sends a request as the forwarder.
func (w *world) release(asked *api.ReleaseRequest) (int, api.Refusal, api.ReleaseAnswer) {
	w.Helper()
	text, err := json.Marshal(asked)
	must(w.T, err)
	var a api.ReleaseAnswer
	code, r := w.post(api.ReleasePath, w.token("forwarder", api.Audience), string(text), &a)
	return code, r, a
}

// now is the Scan as the API server has it.
func (w *world) now() *executionv1.Scan {
	w.Helper()
	s := &executionv1.Scan{}
	must(w.T, cluster.Client.Get(w.Context(), client.ObjectKeyFromObject(w.scan), s))
	return s
}

func TestReleaseIsWrittenOnTheScan(t *testing.T) {
	w := newWorld(t, releasing(cluster.Client))
	w.grant(w.scan.Namespace, "delete")
	asked := w.forwarded(true)
	if code, r, a := w.release(asked); code != http.StatusOK || a.Released {
		t.Fatalf("dry run: %d %+v %+v", code, r, a)
	}
	if s := w.now(); s.Annotations[executionv1.AnnotationReleased] != "" || s.Status.FindingDownloadLink == "" {
		t.Fatalf("a dry run has written %+v", s)
	}
	asked.DryRun = false
	for _, which := range []string{"first", "second"} { // whose answer was lost
		if code, r, a := w.release(asked); code != http.StatusOK || !a.Released {
			t.Fatalf("%s call: %d %+v %+v", which, code, r, a)
		}
	}
	s := w.now()
	if s.Annotations[executionv1.AnnotationReleased] != "1" || s.Status.FindingDownloadLink+s.Status.RawResultDownloadLink != "" {
		t.Errorf("annotations %v, links %q %q", s.Annotations, s.Status.FindingDownloadLink, s.Status.RawResultDownloadLink)
	}
	for _, c := range s.Status.Conditions {
		if c.Type == executionv1.ConditionResultsStored && c.Status == metav1.ConditionFalse && c.Reason == executionv1.ReasonRemoving {
			return
		}
	}
	t.Errorf("nothing says that results are removed: %+v", s.Status.Conditions)
}

func TestReleaseForbidden(t *testing.T) {
	w := newWorld(t, releasing(cluster.Client))
	asked := w.forwarded(false)
	if code, r, _ := w.release(asked); code != http.StatusForbidden || r.Reason != api.ReasonForbidden {
		t.Errorf("who may read may remove: %d %+v", code, r)
	}
	w.grant(w.scan.Namespace, "delete")
	asked.Chain = "c1"
	if code, r, _ := w.release(asked); code != http.StatusConflict || r.Reason != api.ReasonNotProved {
		t.Errorf("without proof: %d %+v", code, r)
	}
	asked.Chain = "c0"
	w.upload("findings.json", `[{"name":"later"}]`)
	if code, r, _ := w.release(asked); code != http.StatusConflict || r.Reason != api.ReasonResultsChanged {
		t.Errorf("other findings: %d %+v", code, r)
	}
	if s := w.now(); s.Annotations[executionv1.AnnotationReleased] != "" {
		t.Error("what was refused was written")
	}
}

// TestReleaseIsJudgedAnewAfterAConflict: somebody writes the Scan between the operator's look and its write.
func TestReleaseIsJudgedAnewAfterAConflict(t *testing.T) {
	live, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
	must(t, err)
	conflicts := 0
	var w *world
	busy := interceptor.NewClient(live, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		conflicts++
		s := w.now()
		before := s.DeepCopy()
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, executionv1.AnnotationOnDelete, executionv1.OnDeleteRetain)
		return errors.Join(c.Patch(ctx, s, client.MergeFrom(before)), c.Patch(ctx, o, p, opts...))
	}})
	w = newWorld(t, releasing(busy))
	w.grant(w.scan.Namespace, "delete")
	if code, r, _ := w.release(w.forwarded(false)); code != http.StatusConflict || r.Reason != api.ReasonRetained || conflicts != 1 {
		t.Errorf("%d %+v after %d conflicts", code, r, conflicts)
	}
	if s := w.now(); s.Annotations[executionv1.AnnotationReleased] != "" {
		t.Error("the results go although somebody wants them to stay")
	}
}

// TestReleaseContinuesByAnnotation: an operator that is killed between its two writes has given the results up.
func TestReleaseContinuesByAnnotation(t *testing.T) {
	live, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
	must(t, err)
	killed := interceptor.NewClient(live, interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
		return errors.New("killed")
	}})
	w := newWorld(t, releasing(killed))
	w.grant(w.scan.Namespace, "delete")
	asked := w.forwarded(false)
	if code, r, _ := w.release(asked); code != http.StatusServiceUnavailable {
		t.Errorf("%d %+v", code, r)
	}
	if s := w.now(); s.Annotations[executionv1.AnnotationReleased] != "1" {
		t.Error("the annotation does not come first")
	}
	if code, r, a := w.release(asked); code != http.StatusOK || !a.Released {
		t.Errorf("the next call: %d %+v %+v", code, r, a)
	}
}
