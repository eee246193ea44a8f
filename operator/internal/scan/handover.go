// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
	apioutcome "github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// handOver makes what a parser or hook is handed; nil where its image works by the Kubernetes API. A Scan that is too
// large to be handed over is read by the API: our images know both ways.
func (r *Reconciler) handOver(ctx context.Context, o *life.Observation, d *life.Decision, how executionv1.ScanAccess, writes bool) (*jobs.Handover, error) {
	if how != executionv1.ScanAccessHandover {
		return nil, nil
	}
	scan := o.Scan.DeepCopy()
	if d.Status != nil {
		scan.Status = *d.Status // it is written when the Job is there
	}
	h, err := jobs.NewHandover(scan)
	if errors.Is(err, handover.ErrTooLarge) {
		log.FromContext(ctx).Info("The Scan is too large to be handed over; its pod reads it by the API")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if h.PullSecrets, err = r.access.PullSecrets(ctx, o.Scan.Namespace); err != nil {
		return nil, err
	}
	if writes {
		h.CategoriesURL, err = r.store.PresignUpload(ctx, store.OwnerOf(o.Scan), apioutcome.CategoriesFile, r.expiryOf(o).Hook)
	}
	return h, err
}

// ensureParserEarly makes the account of the parser before the scanner starts, where one is needed: the API server knows
// it then when the parser starts. It says whether none was made.
func (r *Reconciler) ensureParserEarly(ctx context.Context, o *life.Observation) (none bool, err error) {
	resultType := o.ScanType.ExtractResults.Type
	definition, err := r.catalog.ParseDefinition(ctx, o.Scan, resultType)
	if err != nil {
		return true, ignoreMissing(err) // it may come; its account is made then
	}
	if definition.ScanAccess == executionv1.ScanAccessHandover {
		return true, nil
	}
	_, err = r.access.EnsureParser(ctx, o.Scan, resultType)
	return false, err
}

// mayHaveAccount says whether an account of the Scan may be there: a Job was made for it, or nothing tells.
func (r *Reconciler) mayHaveAccount(o *life.Observation) bool {
	for _, j := range o.Jobs {
		if !j.Handed {
			return true
		}
	}
	return len(o.Jobs) == 0 || r.access.HasMade(o.Scan)
}
