// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/scans"
)

// Moments of a delivery, as they begin the names of Scans.
const (
	whenJobIsMade    = "made"
	whileItDelivers  = "delivers"
	whenJobHasEnded  = "ended"
	deliveryRounds   = 3
	deliveryFindings = 2 // of test-scan
)

// deliveries is a far end that remembers what it has taken, and kills the operator once for
// each Scan, at the moment that the Scan's name begins with.
type deliveries struct {
	rig *rig

	mu     sync.Mutex
	killed map[types.UID]bool
	// taken counts findings by Scan and id.
	taken map[types.UID]map[string]int
}

// at kills the operator if a Scan waits for this moment.
func (d *deliveries) at(moment, scan string, uid types.UID) {
	if !strings.HasPrefix(scan, moment+"-") {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.killed[uid] {
		return
	}
	d.killed[uid] = true
	d.rig.must(d.rig.operator.Kill())
}

// ServeHTTP takes what generic-webhook sends.
func (d *deliveries) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	defer GinkgoRecover()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the hook broke off
	}
	var p struct {
		Scan     executionv1.Scan
		Findings []struct{ ID string }
	}
	d.rig.must(json.Unmarshal(body, &p))
	d.at(whileItDelivers, p.Scan.Name, p.Scan.UID) // before it has its answer
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.taken[p.Scan.UID] == nil {
		d.taken[p.Scan.UID] = map[string]int{}
	}
	for _, f := range p.Findings {
		d.taken[p.Scan.UID][f.ID]++
	}
	rw.WriteHeader(http.StatusOK)
}

// onJob follows the Jobs of hooks.
func (d *deliveries) onJob(j *batchv1.Job, there bool) {
	defer GinkgoRecover()
	scan := ownerOf(j)
	if scan == nil || !there || j.Labels[executionv1.LabelHookName] == "" {
		return
	}
	d.at(whenJobIsMade, scan.name, scan.uid)
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			d.at(whenJobHasEnded, scan.name, scan.uid)
		}
	}
}

type owner struct {
	name string
	uid  types.UID
}

func ownerOf(o client.Object) *owner {
	for _, r := range o.GetOwnerReferences() {
		if r.Kind == "Scan" {
			return &owner{r.Name, r.UID}
		}
	}
	return nil
}

var _ = Describe("Delivery", Label("fault", "hooks"), func() {
	// The operator is killed, kill -9, when the Job of a hook has just been made, while the hook
	// delivers, and when the Job has just ended.
	It("brings each finding once when the operator is killed meanwhile, and every Scan is Done", NodeTimeout(patience), func(ctx SpecContext) {
		r := newRig(ctx)
		d := &deliveries{rig: r, killed: map[types.UID]bool{}, taken: map[types.UID]map[string]int{}}
		there := httptest.NewServer(d)
		DeferCleanup(there.Close)
		const ns = "delivery"
		r.must(r.helm.Install(r.ctx, install.Release{Chart: "test-scan", Namespace: ns}))
		r.must(r.helm.Install(r.ctx, install.Release{Chart: "generic-webhook", Namespace: ns, Values: map[string]any{
			"webhookUrl": there.URL, "hook": map[string]any{"env": []any{map[string]any{"name": "WEBHOOK_BATCH_SIZE", "value": "1"}}},
		}}))
		follow.Start(r.ctx, r.admin, &batchv1.JobList{}, d.onJob, client.InNamespace(ns), client.HasLabels{executionv1.LabelHookName})

		n := 0
		for round := range deliveryRounds {
			for _, moment := range []string{whenJobIsMade, whileItDelivers, whenJobHasEnded} {
				r.must(r.admin.Create(r.ctx, scans.New(ns, fmt.Sprintf("%s-%d", moment, round), "test-scan")))
				n++
			}
			// The next round begins when this one has ended, so that the kills of one do not
			// hide what those of another would show.
			_, err := r.scans.UntilAll(r.ctx, func(have []*executionv1.Scan) bool { return settled(have) == n })
			r.must(err)
		}
		for _, s := range r.scans.All() {
			Expect(s.Status.State).To(Equal(executionv1.ScanStateDone), "Scan %s: %s", s.Name, s.Status.ErrorDescription)
			r.checkJobs(s, "generic-webhook")
			d.check(s)
		}
	})
})

// check holds what has arrived of one Scan against what it has stored.
func (d *deliveries) check(s *executionv1.Scan) {
	GinkgoHelper()
	all, err := scans.Findings(d.rig.ctx, s)
	Expect(err).NotTo(HaveOccurred())
	Expect(all).To(HaveLen(deliveryFindings), "stored findings of Scan %s", s.Name)
	d.mu.Lock()
	defer d.mu.Unlock()
	Expect(d.killed[s.UID]).To(BeTrue(), "the operator was not killed for Scan %s", s.Name)
	for i := range all {
		Expect(d.taken[s.UID][all[i].ID.String()]).To(Equal(1), "finding %s of Scan %s", all[i].ID, s.Name)
	}
	Expect(d.taken[s.UID]).To(HaveLen(len(all)), "what has arrived of Scan %s", s.Name)
}
