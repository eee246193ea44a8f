// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/follow"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
)

// probe runs the test scan.
type probe struct {
	*checkup
	client     client.WithWatch
	namespace  string
	scanType   string
	parameters []string
}

const (
	// probeTTL is the time after which the operator deletes a test scan that was left behind.
	probeTTL = time.Hour
	// cleanUpTimeout bounds the deletion at the end.
	cleanUpTimeout = time.Minute
)

func (t *probe) run(ctx context.Context) error {
	scan := &executionv1.Scan{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, GenerateName: "doctor-"},
		Spec: executionv1.ScanSpec{
			ScanType: t.scanType, Parameters: append([]string{}, t.parameters...), TTLSecondsAfterFinished: new(int32(probeTTL.Seconds())),
		},
	}
	if t.clusterWide {
		scan.Spec.ResourceMode = ptr.To(executionv1.ClusterWide)
	}
	if err := t.client.Create(ctx, scan); err != nil {
		t.report(Result{"test scan", Fail, t.session.Explain(fmt.Errorf("create scan: %w", err)).Error(), ""})
		return nil
	}
	fmt.Fprintf(t.session.Out, "      %-19s %s of type %s runs\n", "", scan.Name, t.scanType)
	final, timedOut, err := t.wait(ctx, scan)
	if err == nil {
		for _, v := range resultsOfScan(final, timedOut) {
			t.report(v)
		}
		if final.Status.State == executionv1.ScanStateDone {
			t.report(t.download(ctx, final))
		}
	}
	if t.keep {
		fmt.Fprintf(t.session.Out, "      %-19s kept: %s\n", "", t.session.Suggest("describe", scan.Name))
	} else {
		t.report(t.remove(ctx, scan))
	}
	if ctx.Err() != nil {
		return session.Exit(session.CodeInterrupted, errors.New("interrupted"))
	}
	return err
}

// wait waits for the end of the scan, as long as --timeout says.
func (t *probe) wait(ctx context.Context, scan *executionv1.Scan) (final *executionv1.Scan, timedOut bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	final = scan
	err = follow.Of[*executionv1.Scan](t.client, &executionv1.ScanList{}, client.InNamespace(t.namespace), client.MatchingFields{"metadata.name": scan.Name}).
		Run(bounded, func(now *executionv1.Scan, there bool) (bool, error) {
			if !there {
				return true, fmt.Errorf("another client has deleted the test scan %s", scan.Name)
			}
			final = now
			return now.Settled(), nil
		}, nil)
	if bounded.Err() != nil && ctx.Err() == nil {
		return final, true, nil
	}
	return final, false, err
}

// download reads the findings as a user does.
func (t *probe) download(ctx context.Context, scan *executionv1.Scan) Result {
	v := Result{Check: "download", Grade: OK}
	r, err := results.New(t.session, t.client, t.results)
	if err == nil {
		var n int64
		if n, err = t.count(ctx, r, scan); err == nil {
			v.Says = fmt.Sprintf("the findings of the test scan came from object storage (%d bytes)", n)
			return v
		}
	}
	v.Grade, v.Says = Fail, t.session.Explain(err).Error()
	v.Remedy = "this machine must reach the storage at the host of the links; --connect-to helps after kubectl port-forward"
	return v
}

func (t *probe) count(ctx context.Context, r *results.Reader, scan *executionv1.Scan) (n int64, err error) {
	body, _, err := r.OpenMetered(ctx, scan, results.Findings)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	return io.Copy(io.Discard, body)
}

// remove deletes the test scan, also after Ctrl-C, and checks that its stored results go with it.
func (t *probe) remove(ctx context.Context, scan *executionv1.Scan) Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	v := Result{Check: "clean-up", Grade: OK, Says: "the test scan and what it had stored are removed"}
	err := t.client.Delete(ctx, scan, client.Preconditions{UID: &scan.UID})
	if err != nil && !apierrors.IsNotFound(err) {
		return Result{"clean-up", Warn, t.session.Explain(err).Error(), fmt.Sprintf("the scan %s goes by itself an hour after its end", scan.Name)}
	}
	err = follow.Of[*executionv1.Scan](t.client, &executionv1.ScanList{}, client.InNamespace(t.namespace), client.MatchingFields{"metadata.name": scan.Name}).
		Run(ctx, func(_ *executionv1.Scan, there bool) (bool, error) { return !there, nil },
			func(all []*executionv1.Scan) (bool, error) { return len(all) == 0, nil })
	if err != nil {
		return Result{"clean-up", Warn, "the test scan is still being deleted: " + err.Error(), "look at its Events: " + t.session.Suggest("describe", scan.Name)}
	}
	return v
}
