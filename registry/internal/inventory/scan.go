// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/feed"
)

// withSBOM are the states of images that have one.
var withSBOM = []string{reportsv1.ImageWaitingForMatch, reportsv1.ImageMatching, reportsv1.ImageScanned}

// Scan says what the items of a ScanJob are.
func (r Reader) Scan(ctx context.Context, j Job) (*Found, error) {
	l := newLook(r, j)
	l.found.Reached = true
	if err := l.narrow(ctx); err != nil {
		return nil, err
	}
	if !j.Spec.RetryOnly {
		wanted := l.touched
		if j.Mode == registryv1alpha1.ModeFull {
			wanted = l.all
		}
		if err := wanted(ctx); err != nil {
			return nil, err
		}
	}
	if err := l.again(ctx); err != nil {
		return nil, err
	}
	if err := l.working(ctx, map[string]feed.Step{reportsv1.ImageMatching: feed.Match}); err != nil {
		return nil, err
	}
	if err := l.ended(ctx, true); err != nil {
		return nil, err
	}
	return l.found, l.counts(ctx)
}

// touched are images that the job's data may say something new of.
func (l *look) touched(ctx context.Context) error {
	count, err := l.pages(ctx, feed.Match, reportsv1.ImageQuerySpec{
		Need: reportsv1.NeedMatch, Adapter: l.job.Adapter, EngineVersion: l.job.Database.EngineVersion, DatabaseVersion: l.job.Database.Version,
	})
	l.found.Items.Waiting += count
	return err
}

// all are the images with an SBOM that the job has not looked at.
func (l *look) all(ctx context.Context) error {
	for _, state := range []string{reportsv1.ImageWaitingForMatch, reportsv1.ImageScanned} {
		err := l.eachImage(ctx, state, func(image *reportsv1.Image) bool {
			if (l.only == nil || l.only[image.Name]) && (state == reportsv1.ImageWaitingForMatch || !l.isMine(image.Status.Work)) {
				l.found.Items.Waiting++
				l.head(headOfImage(image, feed.Match))
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// counts makes the sums of the job: total = unaffected + wanted, and wanted is the sum of the rest.
func (l *look) counts(ctx context.Context) error {
	f, s := l.found, &l.found.Scanned
	quarantined, err := l.ask(ctx, reportsv1.ImageQuerySpec{JobUID: l.job.UID, States: []string{reportsv1.ImageQuarantined}})
	if err != nil {
		return err
	}
	there, err := l.ask(ctx, reportsv1.ImageQuerySpec{States: withSBOM})
	if err != nil {
		return err
	}
	s.Waiting, s.Working, s.Quarantined = f.Items.Waiting, f.Items.Working, quarantined.Total
	s.Failed = f.Items.Failed - quarantined.Total
	if s.Changed, err = l.changed(ctx, f.Items.Done); err != nil {
		return err
	}
	s.Unchanged = f.Items.Done - s.Changed
	s.Wanted = s.Waiting + s.Working + s.Changed + s.Unchanged + s.Failed + s.Quarantined
	s.Total = max(there.Total, s.Wanted)
	s.Unaffected = s.Total - s.Wanted
	f.Items.Total = s.Wanted
	return nil
}

// changed counts the reports of the job with findings that came or went. While the job works they are not asked for.
func (l *look) changed(ctx context.Context, done int64) (int64, error) {
	if done == 0 || l.found.Items.Waiting+l.found.Items.Working > 0 {
		return 0, nil
	}
	var count int64
	err := l.eachImage(ctx, reportsv1.ImageScanned, func(image *reportsv1.Image) bool {
		if l.isMine(image.Status.Work) && image.Status.Reason == reportsv1.ReasonChanged {
			count++
		}
		return true
	})
	return min(count, done), err
}
