// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
	apioutcome "github.com/scanyard/scanyard/apis/outcome"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// handOver makes the input that a parser or hook is handed; nil where its image uses the Kubernetes API. The pod reads a Scan
// that is too large to be handed over by the API: our images support both ways.
// Its URLs live for as long as expiry says.
func (r *Reconciler) handOver(
	ctx context.Context, o *life.Observation, d *life.Decision, how executionv1.ScanAccess, writes bool, expiry time.Duration,
) (*jobs.Handover, error) {
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
	if h.ExceptionsURL, err = r.handExceptions(ctx, o, expiry); err != nil {
		return nil, err
	}
	if writes {
		h.CategoriesURL, err = r.store.PresignUpload(ctx, store.OwnerOf(o.Scan), apioutcome.CategoriesFile, expiry)
	}
	return h, err
}

// ensureParserEarly makes the account of the parser, where one is needed, before the scanner starts: the API server then
// knows the account when the parser starts. It returns the ParseDefinition, nil where there is none yet, and whether no account
// was made.
func (r *Reconciler) ensureParserEarly(ctx context.Context, o *life.Observation) (definition *executionv1.ParseDefinitionSpec, none bool, err error) {
	resultType := o.ScanType.ExtractResults.Type
	definition, err = r.catalog.ParseDefinition(ctx, o.Scan, resultType)
	if err != nil {
		return nil, true, ignoreMissing(err) // the ParseDefinition may come; the account is made then
	}
	if definition.ScanAccess == executionv1.ScanAccessHandover {
		return definition, true, nil
	}
	_, err = r.access.MakeParser(ctx, o.Scan, resultType)
	return definition, false, err
}

// fusedParser returns the parser to run in the scanner's pod; nil where it gets a pod of its own.
func (r *Reconciler) fusedParser(
	ctx context.Context, o *life.Observation, d *life.Decision, l life.JobRequest, s jobShape, definition *executionv1.ParseDefinitionSpec,
) (*jobs.Parser, error) {
	if why := separate(o, s, definition); why != "" {
		log.FromContext(ctx).V(1).Info("The parser gets a pod of its own", "because", why)
		return nil, nil
	}
	handed, err := r.handOver(ctx, o, d, definition.ScanAccess, true, store.DownloadExpiry)
	if err != nil || handed == nil {
		return nil, err
	}
	// No client renews these URLs. Where they expire before the scanner ends, the parser gets a pod and URLs of its own.
	findings, err := r.store.PresignUpload(ctx, store.OwnerOf(o.Scan), executionv1.FindingsFile, store.DownloadExpiry)
	if err != nil {
		return nil, err
	}
	return &jobs.Parser{
		Scan: o.Scan, Definition: definition, Result: l.Result, FindingsUploadURL: findings, Handover: handed, Attempt: l.Attempt, Rerun: l.Rerun, Hooks: l.Hooks,
	}, nil
}

// separate returns why the parser cannot run in the scanner's pod; "" if it can.
func separate(o *life.Observation, s jobShape, definition *executionv1.ParseDefinitionSpec) string {
	parser := s.attributes
	parser.Phase = settingsv1alpha2.PhaseParser
	switch {
	case s.tenant != nil && s.tenant.Jobs.Separate:
		return "jobs.phases of the settings is Separate"
	case s.tenant != nil && s.tenant.Differs(s.attributes, parser):
		return "jobPatches of the settings are for one of the phases only"
	case definition != nil && life.ParserForbidden(o, definition) != "":
		return "the settings forbid the parser"
	}
	return jobs.Separate(o.Scan, o.ScanType, definition, s.config.Additions)
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
