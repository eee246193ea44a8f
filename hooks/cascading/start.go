// SPDX-License-Identifier: Apache-2.0

package cascading

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/child"
	"github.com/scanyard/scanyard/findings/cascade/plan"
	"github.com/scanyard/scanyard/podkit/kubeapi"
)

// run creates the children of one Scan.
type run struct {
	*handler
	about  about
	notef  func(string, ...any)
	plan   *plan.Plan
	budget plan.Budget
}

// start creates one child, or finds that it is there.
func (r *run) start(ctx context.Context, c plan.Child) (plan.Result, error) {
	if r.budget.Max > 0 {
		if err := r.count(ctx); err != nil {
			return plan.Failed, stopIfAway(err)
		}
		if !r.budget.Admit(c.Name) {
			return plan.Held, nil
		}
	}
	path := r.cluster.inNamespace(executionAPI, "scans")
	err := r.cluster.create(ctx, path, c.Scan)
	if apierrors.IsAlreadyExists(err) {
		return r.existing(ctx, path, c)
	}
	if err != nil {
		return plan.Failed, stopIfAway(fmt.Errorf("create Scan %s: %w", c.Name, err))
	}
	r.notef("started Scan %s: rule %s, finding %s", c.Name, c.Rule, c.Finding)
	r.tellStarted(r.about, c)
	return plan.Started, nil
}

// count counts the Scans of the chain. It is called again each time, since the hooks of other Scans of the
// chain may be at work as well.
func (r *run) count(ctx context.Context) error {
	chain, err := r.cluster.list(ctx, r.cluster.inNamespace(executionAPI, "scans"), child.LabelRoot+"="+r.plan.Parent().Root(), metadataOnly)
	if err != nil {
		return fmt.Errorf("count the Scans of the chain for maxScans: %w", err)
	}
	r.budget.Taken = make(map[string]bool, len(chain))
	for _, scan := range chain {
		name, _ := objectAt(scan, "metadata").Text("name").Get()
		r.budget.Taken[name] = true
	}
	return nil
}

// existing decides about a Scan that has a child's name.
func (r *run) existing(ctx context.Context, path kubeapi.Path, c plan.Child) (plan.Result, error) {
	there, err := r.cluster.get(ctx, path.Join(c.Name))
	if err != nil {
		return plan.Failed, stopIfAway(fmt.Errorf("get Scan %s, which exists already: %w", c.Name, err))
	}
	metadata := objectAt(there, "metadata")
	root, _ := objectAt(metadata, "labels").Text(child.LabelRoot).Get()
	own, _ := objectAt(objectAt(c.Scan, "metadata"), "labels").Text(child.LabelRoot).Get()
	deleted, _ := metadata.Text("deletionTimestamp").Get()
	switch {
	case there == nil || deleted != "":
		return plan.Failed, fmt.Errorf("create Scan %s: one of that name is just being deleted", c.Name)
	case controller(metadata) == controller(objectAt(c.Scan, "metadata")):
		r.notef("Scan %s is there already: rule %s, finding %s", c.Name, c.Rule, c.Finding)
		return plan.Started, nil
	case r.plan.Deduplicates() && own != "" && root == own:
		r.notef("Scan %s is there already, started elsewhere in the chain: rule %s, finding %s", c.Name, c.Rule, c.Finding)
		return plan.Duplicate, nil
	}
	return plan.Failed, fmt.Errorf("create Scan %s: there is one of that name that this Scan does not own", c.Name)
}

// controller is the UID of an object's controlling owner.
func controller(metadata finding.Object) string {
	owners, _ := metadata.Get("ownerReferences")
	list, _ := owners.([]any)
	for _, owner := range list {
		reference, _ := owner.(finding.Object)
		if controls, _ := reference.Get("controller"); controls == true {
			uid, _ := reference.Text("uid").Get()
			return uid
		}
	}
	return ""
}

// stopIfAway ends everything where the API server is away: others would fare no better.
func stopIfAway(err error) error {
	if errors.Is(err, kubeapi.ErrAway) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", plan.ErrStop, err)
	}
	return err
}
