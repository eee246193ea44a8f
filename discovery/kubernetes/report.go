// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/discovery/kubernetes/config"
	"github.com/scanyard/scanyard/discovery/kubernetes/targets"
)

// reportPage is how many objects a response of the API server has at most.
const reportPage = 500

// Report is what a discovery would do with the present cluster.
type Report struct {
	// Rows are one for each target and scanConfig, in order.
	Rows []Row `json:"rows"`
	// Changes is what would be written.
	Changes Changes `json:"changes"`
}

// Row is what becomes of a target.
type Row struct {
	Namespace string       `json:"namespace"`
	Kind      targets.Kind `json:"kind"`
	// Name of the object, or the image.
	Name string `json:"name"`
	// Detail is the port, the URL, or a pod in which an image runs.
	Detail     string          `json:"detail,omitempty"`
	ScanConfig string          `json:"scanConfig,omitempty"`
	Outcome    targets.Outcome `json:"outcome"`
	Reason     targets.Reason  `json:"reason,omitempty"`
	// Message says what to do where it is not scanned.
	Message       string `json:"message,omitempty"`
	ScheduledScan string `json:"scheduledScan,omitempty"`
	// Change is what would be done to the ScheduledScan: create, update, restart, delete,
	// or nothing.
	Change string `json:"change,omitempty"`
}

// Changes count what would be written.
type Changes struct {
	Create  int `json:"create"`
	Update  int `json:"update"`
	Restart int `json:"restart"`
	Delete  int `json:"delete"`
}

// NewReport returns what would be scanned in a namespace, or in all if it is empty, with this configuration,
// and why other targets would not. It writes nothing.
// The reader's scheme must know the kinds of AddToScheme.
func NewReport(ctx context.Context, reader client.Client, config *config.Compiled, namespace string, now time.Time) (*Report, error) {
	served, err := servesGateways(reader.RESTMapper())
	if err != nil {
		return nil, err
	}
	o := observer{reader: reader, config: config, gateway: served, page: reportPage}
	namespaces, err := o.namespaces(ctx, namespace)
	if err != nil {
		return nil, err
	}
	l, err := o.read(ctx, namespace)
	if err != nil {
		return nil, err
	}
	total := 0
	for i := range l.scans {
		if e := existing(&l.scans[i], config.FieldOwner()); e.Ours || e.Upstream {
			total++
		}
	}
	report := &Report{Rows: []Row{}}
	for i := range namespaces {
		view := l.observation(&namespaces[i], config, now)
		view.Total = total
		plan := targets.Decide(view, config)
		report.add(namespaces[i].Name, &plan)
		total += countOf(plan.Changes, targets.Create) - countOf(plan.Changes, targets.Delete)
	}
	return report, nil
}

func (o *observer) namespaces(ctx context.Context, name string) ([]corev1.Namespace, error) {
	if name != "" {
		var one corev1.Namespace
		if err := o.reader.Get(ctx, types.NamespacedName{Name: name}, &one); err != nil {
			return nil, fmt.Errorf("get Namespace: %w", err)
		}
		return []corev1.Namespace{one}, nil
	}
	var all corev1.NamespaceList
	if err := o.list(ctx, &all, client.Limit(o.page)); err != nil {
		return nil, err
	}
	slices.SortFunc(all.Items, func(a, b corev1.Namespace) int { return strings.Compare(a.Name, b.Name) })
	return all.Items, nil
}

func countOf(changes []targets.Change, action targets.Action) int {
	n := 0
	for _, c := range changes {
		if c.Action == action {
			n++
		}
	}
	return n
}

// add adds what was decided about a namespace.
func (r *Report) add(namespace string, p *targets.Decision) {
	change := map[string]string{}
	for _, c := range p.Changes {
		name, what := c.Key.Name, string(c.Action)
		if c.Key.Namespace != namespace {
			name = c.Key.String()
		}
		switch {
		case c.Restart:
			what = "restart"
			r.Changes.Restart++
		case c.Action == targets.Create:
			r.Changes.Create++
		case c.Action == targets.Update:
			r.Changes.Update++
		case c.Action == targets.Delete:
			r.Changes.Delete++
			kind, target := c.Have.Target()
			r.Rows = append(r.Rows, Row{
				Namespace: namespace, Kind: kind, Name: target, ScheduledScan: name, Outcome: targets.Skipped, Reason: targets.Unwanted,
				Message: "nothing wants it any longer", Change: what,
			})
		}
		change[name] = what
	}
	for _, v := range p.Results {
		r.Rows = append(r.Rows, Row{
			Namespace: namespace, Kind: v.Kind, Name: v.Name, Detail: v.Detail, ScanConfig: v.ScanConfig, Outcome: v.Outcome,
			Reason: v.Reason, Message: v.Message, ScheduledScan: v.ScheduledScan, Change: change[v.ScheduledScan],
		})
	}
	slices.SortStableFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
}

// Header are the titles of Cells.
func (r *Report) Header() []string {
	return []string{"NAMESPACE", "KIND", "TARGET", "DETAIL", "CONFIG", "OUTCOME", "CHANGE", "REASON", "MESSAGE"}
}

// Cells are the row as texts, for a table.
func (r Row) Cells() []string {
	message := r.Message
	if r.Outcome == targets.Scanned {
		message = "ScheduledScan " + r.ScheduledScan
	}
	return []string{r.Namespace, string(r.Kind), r.Name, r.Detail, r.ScanConfig, string(r.Outcome), r.Change, string(r.Reason), message}
}
