// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/feed"
	"github.com/scanyard/scanyard/registry/internal/results"
)

// Discovery says what the items of a DiscoveryJob are.
func (r Reader) Discovery(ctx context.Context, j Job) (*Found, error) {
	l := newLook(r, j)
	if !j.Spec.RetryOnly {
		listed, err := l.catalog(ctx)
		if err != nil || !listed {
			return l.found, err
		}
		if err := l.listed(ctx); err != nil {
			return nil, err
		}
	}
	if j.StopAfter != registryv1alpha1.StopAfterDiscovery {
		if err := l.newImages(ctx); err != nil {
			return nil, err
		}
	}
	l.sum()
	if l.found.Items.Waiting+l.found.Items.Working > 0 {
		return l.found, nil
	}
	return l.found, l.images(ctx)
}

// images counts those of the Registry once the job has nothing to do any more: before, the numbers would be old at once.
func (l *look) images(ctx context.Context) error {
	f := &l.found.Images
	*f = registryv1alpha1.FoundImages{}
	return l.eachOf(ctx, fields.Set{"spec.registry.uid": l.registryUID()}, func(image *reportsv1.Image) bool {
		left := image.Status.GoneTime
		switch {
		case !narrowed(l.job.Spec.Repositories, image.Spec.Repository):
		case image.Status.Presence == reportsv1.ImagePresent && !image.CreationTimestamp.Time.Before(l.job.Started):
			f.Found++
			f.New++
		case image.Status.Presence == reportsv1.ImagePresent:
			f.Found++
			f.Unchanged++
		case left != nil && !left.Time.Before(l.job.Started):
			f.Gone++
		}
		return true
	})
}

// catalog tells whether the catalogue has been read for the job. As long as it has not, it is the only item.
func (l *look) catalog(ctx context.Context) (bool, error) {
	name := results.RepositoryName(l.registryUID(), "")
	catalog := &reportsv1.Repository{}
	err := l.Client.Get(ctx, client.ObjectKey{Namespace: l.job.Namespace, Name: name}, catalog)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("get the Repository of the catalogue: %w", err)
	}
	f, status := l.found, catalog.Status
	if err == nil && l.isMine(status.Work) {
		switch status.State {
		case reportsv1.RepositoryDone:
			f.Reached, f.Catalog = true, catalogReason(status.Reason)
			return true, nil
		case reportsv1.RepositoryFailed:
			f.Items.Total, f.Items.Failed = 1, 1
			l.fail("the catalogue", status.Reason, status.Message, status.Work)
			l.refusal(status.Reason, status.Message)
			return false, nil
		}
	}
	f.Listing, f.Items.Total = true, 1
	l.refusal(status.Reason, status.Message)
	if err == nil && status.State == reportsv1.RepositoryWorking && l.isHeld(status.Work) {
		f.Items.Working = 1
		return false, nil
	}
	f.Items.Waiting = 1
	l.head(headOf(catalog, name))
	return false, nil
}

// catalogReason is a reason of the condition CatalogAvailable.
func catalogReason(reason string) string {
	switch reason {
	case registryv1alpha1.ReasonCatalogNotSupported, registryv1alpha1.ReasonCatalogForbidden, registryv1alpha1.ReasonCatalogLoop,
		registryv1alpha1.ReasonNotAsked, registryv1alpha1.ReasonListed:
		return reason
	}
	return ""
}

func headOf(repository *reportsv1.Repository, name string) Head {
	h := Head{Step: feed.Discover, Name: name, UID: string(repository.UID)}
	if w := repository.Status.Work; w != nil {
		h.Alone = w.Lost >= aloneAfter
		if w.NotBefore != nil {
			h.NotBefore = w.NotBefore.Time
		}
	}
	return h
}

// listed looks at the repositories that the catalogue has named.
func (l *look) listed(ctx context.Context) error {
	repositories, err := l.repositories(ctx)
	if err != nil {
		return err
	}
	f := l.found
	for i := range repositories {
		r := &repositories[i]
		status := r.Status
		if r.Spec.Repository == "" {
			for _, w := range status.Warnings {
				l.warn(w.Code, w.Count, w.Examples)
			}
			continue
		}
		if !narrowed(l.job.Spec.Repositories, r.Spec.Repository) {
			continue
		}
		f.Repositories.Total++
		settled := l.isMine(status.Work) && (status.State == reportsv1.RepositoryDone || status.State == reportsv1.RepositoryFailed)
		switch {
		case settled && status.State == reportsv1.RepositoryDone:
			f.Repositories.Done++
			l.tags(r)
		case settled:
			f.Repositories.Failed++
			l.fail(r.Spec.Repository, status.Reason, status.Message, status.Work)
		case status.State == reportsv1.RepositoryWorking && l.isHeld(status.Work):
			f.Repositories.Working++
		default:
			f.Repositories.Waiting++
			l.refusal(status.Reason, status.Message)
			l.head(headOf(r, r.Name))
		}
	}
	f.Listing = f.Repositories.Waiting+f.Repositories.Working > 0
	return nil
}

// tags adds what a repository has told of its tags.
func (l *look) tags(r *reportsv1.Repository) {
	f := l.found
	f.Reached = true
	if t := r.Status.Tags; t != nil {
		f.Tags.Listed += t.Listed
		f.Tags.Selected += t.Selected
		f.Tags.Skipped += t.Skipped
	}
	for reason, count := range r.Status.ByReason {
		if f.Tags.ByReason == nil {
			f.Tags.ByReason = map[string]int64{}
		}
		f.Tags.ByReason[reason] += count
	}
	for _, w := range r.Status.Warnings {
		examples := slices.Clone(w.Examples)
		for i := range examples {
			examples[i] = r.Spec.Repository + ":" + examples[i]
		}
		l.warn(w.Code, w.Count, examples)
	}
}

// newImages looks at images that wait for an SBOM or a report, whoever has left them.
func (l *look) newImages(ctx context.Context) error {
	if err := l.narrow(ctx); err != nil {
		return err
	}
	match := l.job.StopAfter != registryv1alpha1.StopAfterSBOM
	sboms, err := l.pages(ctx, feed.SBOM, reportsv1.ImageQuerySpec{Need: reportsv1.NeedSBOM})
	if err != nil {
		return err
	}
	l.found.SBOMs.Wanted += sboms
	var reports int64
	if match {
		spec := reportsv1.ImageQuerySpec{Need: reportsv1.NeedMatch, Adapter: l.job.Adapter, States: []string{reportsv1.ImageWaitingForMatch}}
		if reports, err = l.pages(ctx, feed.Match, spec); err != nil {
			return err
		}
		l.found.Reports.Wanted += reports
	}
	l.found.Items.Waiting += sboms + reports
	steps := map[string]feed.Step{reportsv1.ImageGeneratingSBOM: feed.SBOM}
	if match {
		steps[reportsv1.ImageMatching] = feed.Match
	}
	if err := l.working(ctx, steps); err != nil {
		return err
	}
	if err := l.again(ctx); err != nil {
		return err
	}
	return l.ended(ctx, match)
}

// pages asks for all images that lack something, as far as heads are wanted; the total tells of the others.
func (l *look) pages(ctx context.Context, step feed.Step, spec reportsv1.ImageQuerySpec) (int64, error) {
	var count int64
	spec.Limit = heads
	for {
		answer, err := l.ask(ctx, spec)
		if err != nil {
			return 0, err
		}
		count += l.waiting(step, answer.Items)
		if l.only == nil {
			return answer.Total, nil
		}
		if spec.Continue = answer.Continue; spec.Continue == "" {
			return count, nil
		}
	}
}

// working looks at images that somebody has claimed. One whose lease is over waits.
func (l *look) working(ctx context.Context, steps map[string]feed.Step) error {
	for state, step := range steps {
		err := l.eachImage(ctx, state, func(image *reportsv1.Image) bool {
			switch {
			case l.only != nil && !l.only[image.Name]:
			case l.isHeld(image.Status.Work):
				l.found.Items.Working++
			default:
				l.found.Items.Waiting++
				l.head(headOfImage(image, step))
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func headOfImage(image *reportsv1.Image, step feed.Step) Head {
	h := Head{Step: step, Name: image.Name, UID: string(image.UID), Bytes: image.Spec.CompressedBytes}
	if step == feed.SBOM {
		h.Content = image.Spec.Digest
	}
	if w := image.Status.Work; w != nil {
		h.Alone = w.Lost >= aloneAfter
		if w.NotBefore != nil {
			h.NotBefore = w.NotBefore.Time
		}
	}
	return h
}

// retried are the states that each word of retry means.
var retried = map[registryv1alpha1.Retry]string{
	registryv1alpha1.RetryFailed: reportsv1.ImageFailed, registryv1alpha1.RetryQuarantined: reportsv1.ImageQuarantined,
}

// again looks at images that failed before the job, and that the job wants to begin anew.
func (l *look) again(ctx context.Context) error {
	for _, word := range l.job.Spec.Retry {
		err := l.eachImage(ctx, retried[word], func(image *reportsv1.Image) bool {
			if l.isMine(image.Status.Work) || l.only != nil && !l.only[image.Name] {
				return true
			}
			step := feed.SBOM
			if image.Status.SBOM != nil {
				step = feed.Match
			}
			l.found.Items.Waiting++
			l.head(headOfImage(image, step))
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ended looks at images that the job has brought to an end.
func (l *look) ended(ctx context.Context, match bool) error {
	answer, err := l.ask(ctx, reportsv1.ImageQuerySpec{JobUID: l.job.UID})
	if err != nil {
		return err
	}
	f, by := l.found, answer.ByState
	f.Images.Found = answer.Total
	scanned, matched := by[reportsv1.ImageScanned], by[reportsv1.ImageScanned]
	if !match {
		scanned += by[reportsv1.ImageWaitingForMatch]
	}
	failed := by[reportsv1.ImageFailed] + by[reportsv1.ImageQuarantined]
	f.Items.Done += scanned + by[reportsv1.ImageSkipped]
	f.Items.Failed += failed
	f.SBOMs.Made, f.SBOMs.Failed = scanned, failed
	f.SBOMs.Wanted += f.SBOMs.Made + f.SBOMs.Failed
	if match {
		f.Reports.Made = matched
		f.Reports.Wanted += matched
	}
	if failed == 0 {
		return nil
	}
	for _, state := range []string{reportsv1.ImageFailed, reportsv1.ImageQuarantined} {
		err := l.eachImage(ctx, state, func(image *reportsv1.Image) bool {
			if l.isMine(image.Status.Work) {
				l.fail(image.Spec.Repository+":"+image.Spec.Tag, image.Status.Reason, image.Status.Message, image.Status.Work)
			}
			return len(l.found.Errors) < mostNoted
		})
		if err != nil {
			return err
		}
	}
	f.ErrorsTotal = max(f.ErrorsTotal, failed+f.Repositories.Failed)
	return nil
}

// sum adds the repositories to the items.
func (l *look) sum() {
	f := l.found
	f.Items.Waiting += f.Repositories.Waiting
	f.Items.Working += f.Repositories.Working
	f.Items.Done += f.Repositories.Done
	f.Items.Failed += f.Repositories.Failed
	f.Items.Total = f.Items.Waiting + f.Items.Working + f.Items.Done + f.Items.Failed
}
