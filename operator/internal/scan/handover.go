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

// handOver makes the input that a parser or hook is handed; nil where its image uses the Kubernetes API. The pod reads a Scan
// that is too large to be handed over by the API: our images support both ways.
func (r *Reconciler) handOver(ctx context.Context, o *life.Observation, d *life.Decision, how executionv1.ScanAccess, writes bool) (*jobs.Handover, error) {
	if how != executionv1.ScanAccessHandover {
		return nil, nil
	}
	scan := o.Scan.DeepCopy()
	if d.Status != nil {
		scan.Status = *d.Status // it is written when the Job exists
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
	if h.ExceptionsURL, err = r.handExceptions(ctx, o); err != nil {
		return nil, err
	}
	if writes {
		h.CategoriesURL, err = r.store.PresignUpload(ctx, store.OwnerOf(o.Scan), apioutcome.CategoriesFile, r.expiryOf(o).Hook)
	}
	return h, err
}

// ensureParserEarly makes the account of the parser, where one is needed, before the scanner starts: the API server then
// knows the account when the parser starts. It reports whether none was made.
func (r *Reconciler) ensureParserEarly(ctx context.Context, o *life.Observation) (none bool, err error) {
	resultType := o.ScanType.ExtractResults.Type
	definition, err := r.catalog.ParseDefinition(ctx, o.Scan, resultType)
	if err != nil {
		return true, ignoreMissing(err) // the ParseDefinition may come; the account is made then
	}
	if definition.ScanAccess == executionv1.ScanAccessHandover {
		return true, nil
	}
	_, err = r.access.MakeParser(ctx, o.Scan, resultType)
	return false, err
}

// mayHaveAccount reports whether an account of the Scan may exist: a Job that needs it exists, or no Job shows.
func (r *Reconciler) mayHaveAccount(o *life.Observation) bool {
	for _, j := range o.Jobs {
		if !j.Handover {
			return true
		}
	}
	return len(o.Jobs) == 0 || r.access.HasMade(o.Scan)
}
