// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/podlogs"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/findings/scanview"
)

// retryOptions are the flags of retry.
type retryOptions struct {
	waitOptions
	wait bool
}

func (r *retryOptions) run(ctx context.Context, args []string) error {
	if err := r.check(); err != nil {
		return err
	}
	c, namespace, err := r.session.Connect()
	if err != nil {
		return err
	}
	scan, err := r.session.Scan(ctx, c, namespace, args[0])
	if err != nil {
		return err
	}
	asked := ""
	if len(args) == 2 {
		asked = args[1]
	}
	phase, err := retryPhase(scan, asked)
	if err != nil {
		return err
	}
	before := scan.DeepCopy()
	token := phase + "@" + r.session.Now().UTC().Format(time.RFC3339Nano)
	metav1.SetMetaDataAnnotation(&scan.ObjectMeta, executionv1.AnnotationRerun, token)
	if scan.Cancelled() {
		scan.Spec.Cancel = new(false) // a cancelled Scan does not run again
	}
	if err := c.Patch(ctx, scan, client.MergeFrom(before), client.FieldOwner(fieldOwner)); err != nil {
		return r.session.Explain(fmt.Errorf("ask to run %s again: %w", phase, err))
	}
	fmt.Fprintf(r.out(), "scan/%s: %s run again\n", scan.Name, phase)
	if !r.wait && !r.isSet() {
		return nil
	}
	// Until the operator has started the new run, the status is that of the run before.
	r.from = func(now *executionv1.Scan) (bool, error) { return accepted(now, token) }
	_, err = r.waitOptions.run(ctx, c, scan)
	return err
}

// accepted reports whether the operator has accepted the request. A refusal is an error.
func accepted(scan *executionv1.Scan, token string) (bool, error) {
	if scan.Status.LastRerun != token {
		return false, nil
	}
	if c := meta.FindStatusCondition(scan.Status.Conditions, executionv1.ConditionRerun); c != nil && c.Status == metav1.ConditionFalse {
		return true, fmt.Errorf("the operator refuses to run it again: %s", termsafe.Line(c.Message))
	}
	return true, nil
}

// retryPhase returns the phase to run again: the requested one, or the one in which the Scan has failed.
func retryPhase(scan *executionv1.Scan, asked string) (string, error) {
	if !scan.Settled() {
		return "", fmt.Errorf("scan %s has not ended: it is %s. Retry is for ended scans", scan.Name, scanview.State(scan))
	}
	if asked != "" {
		phase, err := podlogs.ParsePhase(asked)
		if err != nil {
			return "", err
		}
		if name, ok := hookName(phase); ok && !hasHook(scan, name) {
			return "", fmt.Errorf("scan %s has no hook %q%s", scan.Name, name, hooksOf(scan))
		}
		return phase, nil
	}
	for _, p := range scanview.Phases(scan) {
		if p.Progress == scanview.Failed {
			return p.Name, nil
		}
	}
	if scan.Status.State == executionv1.ScanStateDone {
		return "", fmt.Errorf("scan %s is Done: say what to run again: scanner, parser, hooks or hook/NAME", scan.Name)
	}
	return "", fmt.Errorf("scan %s does not show in which phase it failed: name the phase to run again: scanner, parser, hooks or hook/NAME", scan.Name)
}

func hookName(phase string) (string, bool) {
	const prefix = "hook/"
	if len(phase) <= len(prefix) || phase[:len(prefix)] != prefix {
		return "", false
	}
	return phase[len(prefix):], true
}

func hookNames(scan *executionv1.Scan) []string {
	var names []string
	for _, group := range scan.Status.OrderedHookStatuses {
		for _, h := range group {
			names = append(names, h.HookName)
		}
	}
	return names
}

func hasHook(scan *executionv1.Scan, name string) bool {
	return slices.Contains(hookNames(scan), name)
}

func hooksOf(scan *executionv1.Scan) string {
	if names := hookNames(scan); len(names) > 0 {
		return "; it has: " + session.Some(names, maxTypes)
	}
	return "; it has none"
}
