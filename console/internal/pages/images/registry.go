// SPDX-License-Identifier: Apache-2.0

package images

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/charts"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
)

func registryOf(r *registryv1alpha1.Registry) registryLine {
	l := registryLine{
		Link: "/registries/" + r.Namespace + "/" + r.Name, Name: r.Name, Namespace: r.Namespace, URL: r.Spec.URL, Class: "good", State: "Up to date",
	}
	if c := r.Status.Images; c != nil {
		l.Scanned, l.Present, l.Failed = c.Scanned, c.Present, c.Failed+c.Quarantined
		l.Meter = charts.Meter{}
		if c.Present > 0 {
			share := func(n int64) float64 { return 100 * float64(n) / float64(c.Present) }
			l.Meter.Parts = []charts.Part{{Class: "fgood", Width: share(c.Scanned)}, {Class: "fbad", X: share(c.Scanned), Width: share(l.Failed)}}
		}
	}
	if v := r.Status.Vulnerabilities; v != nil {
		l.Counts = web.Ranked([5]int64{v.Critical, v.High, v.Medium, v.Low, v.Unknown})
	}
	if last := r.Status.LastDiscovery; last != nil {
		l.Last = timeOf(last.Time)
	}
	// The first condition that is not as it should be says what is the matter.
	for _, kind := range []string{registryv1alpha1.ConditionReady, registryv1alpha1.ConditionReachable, registryv1alpha1.ConditionUpToDate} {
		c := meta.FindStatusCondition(r.Status.Conditions, kind)
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		l.Class, l.State, l.Says = "wait", c.Reason, c.Message
		if c.Status == metav1.ConditionFalse && kind != registryv1alpha1.ConditionUpToDate {
			l.Class = "bad"
		}
		break
	}
	if r.Spec.Suspend {
		l.Class, l.State = "off", "Suspended"
	}
	return l
}

// job is a DiscoveryJob or a ScanJob.
type job struct {
	Name, Kind, State, Class, Says string
	Progress                       string
	Meter                          charts.Meter
	Created                        time.Time
	Preview                        *registryv1alpha1.Preview
	Errors                         []registryv1alpha1.ItemError
}

type registryView struct {
	registryLine

	Base, CSRF, Denied string
	Allowed            map[string]bool
	Suspended          bool
	Facts              []fact
	Conditions         []metav1.Condition
	Warnings           []registryv1alpha1.Warning
	Jobs               []job
}

type fact struct{ Name, Value string }

// shownJobs is how many jobs the page of a Registry shows.
const shownJobs = 10

func readRegistry(q *web.Request) (*registryv1alpha1.Registry, error) {
	r := &registryv1alpha1.Registry{}
	if err := q.Viewer.Get(q.Context(), client.ObjectKey{Namespace: q.PathValue("namespace"), Name: q.PathValue("name")}, r); err != nil {
		return nil, fmt.Errorf("read Registry: %w", err)
	}
	return r, nil
}

func (p *pages) registry(q *web.Request) (*web.View, error) {
	r, err := readRegistry(q)
	if err != nil {
		return nil, err
	}
	d := &registryView{
		registryLine: registryOf(r), CSRF: q.Session.CSRF, Suspended: r.Spec.Suspend, Conditions: r.Status.Conditions, Warnings: r.Status.Warnings,
		Allowed: map[string]bool{},
	}
	d.Base = d.Link
	group := registryv1alpha1.SchemeGroupVersion.Group
	for name, right := range map[string][2]string{"discover": {"discoveryjobs", "create"}, "scan": {"scanjobs", "create"}, "suspend": {"registries", "patch"}} {
		allowed, denied, err := q.Rights(group, right[0], r.Namespace, right[1])
		if err != nil {
			return nil, err
		}
		if d.Allowed[name] = allowed[right[1]]; denied != "" {
			d.Denied += denied + " "
		}
	}
	d.facts(r)
	notes, err := d.jobs(q, r)
	if err != nil {
		return nil, err
	}
	return &web.View{Title: r.Name, Section: section, Template: p.registryTemplate, Data: d, Notes: notes}, nil
}

func (d *registryView) facts(r *registryv1alpha1.Registry) {
	add := func(name, value string) {
		if value != "" {
			d.Facts = append(d.Facts, fact{name, value})
		}
	}
	add("Address", r.Spec.URL)
	add("Type", string(r.Spec.Type))
	add("Adapter", r.Spec.Adapter)
	add("Discovery", string(r.Spec.DiscoveryPeriod)+string(r.Spec.DiscoverySchedule))
	add("Scan", string(r.Spec.ScanPeriod)+string(r.Spec.ScanSchedule))
	add("Repositories", web.Thousands(r.Status.Repositories))
	add("Tags", web.Thousands(r.Status.Tags))
	if db := r.Status.Database; db != nil {
		add("Vulnerability data", db.Name+" "+short(db.Version))
		if db.BuiltAt != nil {
			add("Data of", db.BuiltAt.UTC().Format(time.RFC3339))
		}
	}
	if t := r.Status.NextDiscoveryTime; t != nil {
		add("Next discovery", t.UTC().Format(time.RFC3339))
	}
	if t := r.Status.NextScanTime; t != nil {
		add("Next scan", t.UTC().Format(time.RFC3339))
	}
}

// jobs are the newest of the Registry.
func (d *registryView) jobs(q *web.Request, r *registryv1alpha1.Registry) (notes []string, err error) {
	scope := cluster.Scope{Names: []string{r.Namespace}}
	add := func(o client.Object, kind string, spec *registryv1alpha1.JobSpec, status *registryv1alpha1.JobStatus) {
		if spec.Registry == r.Name {
			d.Jobs = append(d.Jobs, jobOf(o, kind, status))
		}
	}
	denials, err := q.Viewer.Each(q.Context(), scope, &registryv1alpha1.DiscoveryJobList{}, func(o client.Object) error {
		if j, ok := o.(*registryv1alpha1.DiscoveryJob); ok {
			kind := "Discovery"
			if j.Spec.DryRun {
				kind = "Dry run"
			}
			before := len(d.Jobs)
			if add(j, kind, &j.Spec.JobSpec, &j.Status.JobStatus); len(d.Jobs) > before {
				d.Jobs[before].Preview = j.Status.Preview.DeepCopy()
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	notes = web.Notes("Discovery jobs", denials, nil)
	denials, err = q.Viewer.Each(q.Context(), scope, &registryv1alpha1.ScanJobList{}, func(o client.Object) error {
		if j, ok := o.(*registryv1alpha1.ScanJob); ok {
			add(j, "Scan", &j.Spec.JobSpec, &j.Status.JobStatus)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(d.Jobs, func(a, b job) int { return b.Created.Compare(a.Created) })
	d.Jobs = d.Jobs[:min(len(d.Jobs), shownJobs)]
	return append(notes, web.Notes("Scan jobs", denials, nil)...), nil
}

func jobOf(o client.Object, kind string, s *registryv1alpha1.JobStatus) job {
	j := job{Name: o.GetName(), Kind: kind, State: s.State, Class: "run", Created: o.GetCreationTimestamp().Time, Errors: slices.Clone(s.Errors)}
	if j.State == "" {
		j.State, j.Class = "Waiting", "wait"
	}
	if c := meta.FindStatusCondition(s.Conditions, registryv1alpha1.ConditionCompleted); c != nil && c.Status != metav1.ConditionUnknown {
		j.Class, j.State, j.Says = "good", c.Reason, c.Message
		switch c.Reason {
		case registryv1alpha1.ReasonSucceeded, registryv1alpha1.ReasonNothingToDo:
		case registryv1alpha1.ReasonCompletedWithErrors:
			j.Class = "wait"
		case registryv1alpha1.ReasonCancelled:
			j.Class = "off"
		default:
			j.Class = "bad"
		}
	}
	if p := s.Progress; p != nil && p.Total > 0 {
		j.Progress = fmt.Sprintf("%d of %d", p.Done, p.Total)
		j.Meter = charts.Meter{Parts: []charts.Part{{Class: "f" + j.Class, Width: min(100, 100*float64(p.Done)/float64(p.Total))}}}
	}
	return j
}

// begin makes a job of the Registry.
func begin(q *web.Request, job client.Object) (string, error) {
	job.SetNamespace(q.PathValue("namespace"))
	job.SetGenerateName(q.PathValue("name") + "-")
	if err := q.Viewer.Create(q.Context(), job); err != nil {
		return "", fmt.Errorf("begin job: %w", err)
	}
	return "/registries/" + q.PathValue("namespace") + "/" + q.PathValue("name"), nil
}

// discover looks for new images, or only shows what would be taken.
func (p *pages) discover(q *web.Request) (string, error) {
	j := &registryv1alpha1.DiscoveryJob{}
	j.Spec.Registry, j.Spec.DryRun = q.PathValue("name"), q.PostFormValue("dryRun") == "true"
	return begin(q, j)
}

// scan matches what is known of the images with the newest vulnerability data.
func (p *pages) scan(q *web.Request) (string, error) {
	j := &registryv1alpha1.ScanJob{}
	j.Spec.Registry = q.PathValue("name")
	return begin(q, j)
}

func (p *pages) suspend(q *web.Request) (string, error) {
	r, err := readRegistry(q)
	if err != nil {
		return "", err
	}
	before := r.DeepCopy()
	r.Spec.Suspend = q.PostFormValue("suspend") == "true"
	if err := q.Viewer.Patch(q.Context(), r, client.MergeFrom(before)); err != nil {
		return "", fmt.Errorf("change Registry: %w", err)
	}
	return "/registries/" + r.Namespace + "/" + r.Name, nil
}
