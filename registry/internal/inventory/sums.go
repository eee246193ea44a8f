// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// Sums are what the present images of a Registry are, and what is wrong with them.
type Sums struct {
	Images          registryv1alpha1.ImageCounts
	Vulnerabilities registryv1alpha1.VulnerabilityCounts
}

// Sums goes over the present images of the Registry of a job. Vulnerabilities of an image with several tags count once.
func (r Reader) Sums(ctx context.Context, j Job) (*Sums, error) {
	l, sums := newLook(r, j), &Sums{}
	counted := map[string]bool{}
	err := l.eachImage(ctx, "", func(image *reportsv1.Image) bool {
		sums.Images.Present++
		switch image.Status.State {
		case reportsv1.ImageScanned:
			sums.Images.Scanned++
		case reportsv1.ImageFailed:
			sums.Images.Failed++
		case reportsv1.ImageQuarantined:
			sums.Images.Quarantined++
		case reportsv1.ImageSkipped:
			sums.Images.Skipped++
		default:
			sums.Images.Waiting++
		}
		key := image.Spec.Digest + " " + image.Spec.Platform
		if v := image.Status.Vulnerabilities; v != nil && !counted[key] {
			counted[key] = true
			c := &sums.Vulnerabilities
			for into, count := range map[*int64]*int64{
				&c.Critical: v.Critical, &c.High: v.High, &c.Medium: v.Medium, &c.Low: v.Low, &c.Unknown: v.Unknown, &c.Fixable: v.Fixable,
				&c.Suppressed: v.Suppressed,
			} {
				if count != nil {
					*into += *count
				}
			}
		}
		return true
	})
	return sums, err
}

// Findings counts those that are as bad as least or worse, of all present images of the Registry or of those whose report the job has
// changed. Accepted ones do not count.
func (r Reader) Findings(ctx context.Context, j Job, least registryv1alpha1.Severity, changedOnly bool) (int64, error) {
	var count int64
	l := newLook(r, j)
	err := l.eachImage(ctx, "", func(image *reportsv1.Image) bool {
		v := image.Status.Vulnerabilities
		if v == nil || changedOnly && (!l.isMine(image.Status.Work) || image.Status.Reason != reportsv1.ReasonChanged) {
			return true
		}
		for _, of := range []struct {
			severity registryv1alpha1.Severity
			count    *int64
		}{{"CRITICAL", v.Critical}, {"HIGH", v.High}, {"MEDIUM", v.Medium}, {"LOW", v.Low}, {"UNKNOWN", v.Unknown}} {
			if of.count != nil {
				count += *of.count
			}
			if of.severity == least {
				break
			}
		}
		return true
	})
	return count, err
}
