// SPDX-License-Identifier: Apache-2.0

package cascading

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/apis/decision"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/child"
	"github.com/scanyard/scanyard/findings/cascade/plan"
	"github.com/scanyard/scanyard/findings/cascade/selector"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/podkit/kubeapi"
)

// Connect says how to reach the API server.
type Connect func(env sdk.Env) (*rest.Config, error)

// Hook registers cascading-scans. It uses the API server beyond its own Scan, so it is told how to reach it, and the
// time, which conditions carry.
func Hook(connect Connect, now func() time.Time) sdk.Hook {
	return sdk.Hook{
		Name:    "cascading-scans",
		Summary: "Starts further Scans from findings, by the cascading rules that the Scan selects.",
		New: func(env sdk.Env) (sdk.Handler, error) {
			most, err := maxChildren(env)
			if err != nil {
				return nil, err
			}
			exporter := env.Get(decisionsVariable)
			if exporter != "" && !strings.HasPrefix(exporter, "unix:///") {
				return nil, fmt.Errorf("%s is %q, want a socket, such as unix:///run/scanyard/exporter/exporter.sock", decisionsVariable, exporter)
			}
			return sdk.HandlerFunc(func(ctx context.Context, s *sdk.Session) error {
				told, err := decision.Dial(exporter, decision.Config{Producer: "cascading-scans"}) //nolint:contextcheck // it lives until Close
				if err != nil {
					return err
				}
				defer closeDecisions(ctx, told, s.Notef)
				config, err := connect(env)
				if err != nil {
					return fmt.Errorf("find the Kubernetes API: %w", err)
				}
				c, err := newCluster(config, s.Scan().Metadata.Namespace)
				if err != nil {
					return err
				}
				return (&handler{cluster: c, now: now, maxChildren: most, told: told}).Handle(ctx, s)
			}), nil
		},
	}
}

// maxChildren reads CASCADE_MAX_CHILDREN; 0 means no bound.
func maxChildren(env sdk.Env) (int, error) {
	text := env.Get("CASCADE_MAX_CHILDREN")
	if text == "" {
		return plan.DefaultMaxChildren, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("CASCADE_MAX_CHILDREN is %q, want a number, 0 for no bound", text)
	}
	return int(n), nil
}

type handler struct {
	cluster     *cluster
	now         func() time.Time
	maxChildren int
	// told gets a record of what was started and what was not; nil: nobody wants to know.
	told *decision.Client
}

// Handle starts what the findings of one Scan start.
func (h *handler) Handle(ctx context.Context, s *sdk.Session) error {
	value, err := finding.DecodeValue(s.Scan().Raw, 0)
	if err != nil {
		return fmt.Errorf("read Scan: %w", err)
	}
	scan, _ := value.(finding.Object)
	p, err := h.prepare(ctx, s, scan)
	if err != nil || p == nil {
		return err
	}
	source := func(yield func([]byte) error) error { return s.EachFinding(ctx, yield) }
	if p.Active() {
		if err := source(p.Add); err != nil {
			return fmt.Errorf("nothing is started: %w", err)
		}
	}
	run := &run{handler: h, about: aboutOf(s.Scan(), scan), notef: s.Notef, plan: p, budget: plan.Budget{Max: p.MaxScans()}}
	stopped := p.Children(source, func(c plan.Child) (plan.Result, error) { return run.start(ctx, c) })
	outcomes := p.Outcomes()
	report(s.Notef, p, outcomes)
	h.tellStops(run.about, p, outcomes)
	if stopped != nil {
		return stopped
	}
	h.tellLost(ctx, s, scan, outcomes)
	return p.Failure(outcomes)
}

// prepare reads everything but the findings. Without a plan there is nothing to do.
func (h *handler) prepare(ctx context.Context, s *sdk.Session, scan finding.Object) (*plan.Plan, error) {
	spec := objectAt(scan, "spec")
	cascades := objectAt(spec, "cascades")
	if value, _ := spec.Get("cascades"); value == nil {
		s.Notef("the Scan has no spec.cascades, so it starts nothing")
		return nil, nil
	}
	k := h.kindsOf(spec)
	text, err := selector.Text(cascades)
	if err != nil {
		return nil, fmt.Errorf("spec.cascades: %w", err)
	}
	in := plan.Input{Scan: scan, MaxChildren: h.maxChildren}
	if in.Rules, err = h.cluster.list(ctx, k.rules, text, ""); err != nil {
		return nil, fmt.Errorf("list %s: %w", k.ruleKind, err)
	}
	s.Notef("%d %ss are selected by %q", len(in.Rules), k.ruleKind, text)
	if len(in.Rules) == 0 {
		return nil, nil
	}
	if chain := child.ChainOf(scan); len(chain) > 0 {
		name := chain[len(chain)-1]
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return nil, fmt.Errorf("the annotation cascading.securecodebox.io/chain of the Scan ends in %q, which is not a valid name of a %s", name, k.ruleKind)
		}
		if in.StartedBy, err = h.cluster.get(ctx, k.rules.Join(name)); err != nil {
			return nil, fmt.Errorf("get %s %s, which started this Scan: %w", k.ruleKind, name, err)
		}
		if in.StartedBy == nil {
			s.Notef("%s %s, which started this Scan, is gone: what it had added is inherited like the rest", k.ruleKind, name)
		}
	}
	if value, _ := cascades.Get("scopeLimiter"); value != nil {
		// Without the aliases a scope could seem wider than it is.
		name := s.Scan().Status.RawResultType
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return nil, fmt.Errorf("the Scan's result type %q is not a valid name of a %s", name, k.definitionKind)
		}
		if in.ParseDefinition, err = h.cluster.get(ctx, k.definitions.Join(name)); err != nil {
			return nil, fmt.Errorf("get %s %s: %w", k.definitionKind, name, err)
		}
		if in.ParseDefinition == nil {
			return nil, fmt.Errorf("there is no %s %s, whose scopeLimiterAliases the scope of this Scan may need", k.definitionKind, name)
		}
	}
	if in.Exceptions, err = s.Exceptions(ctx); err != nil {
		return nil, err
	}
	return plan.New(in)
}

// kinds are the family of kinds that a Scan uses; families are never mixed.
type kinds struct {
	rules          kubeapi.Path
	ruleKind       string
	definitions    kubeapi.Path
	definitionKind string
}

func (h *handler) kindsOf(spec finding.Object) kinds {
	if mode, _ := spec.Text("resourceMode").Get(); mode == "clusterWide" {
		return kinds{
			cascadingAPI.Join("clustercascadingrules"), "ClusterCascadingRule",
			executionAPI.Join("clusterparsedefinitions"), "ClusterParseDefinition",
		}
	}
	return kinds{
		h.cluster.inNamespace(cascadingAPI, "cascadingrules"), "CascadingRule",
		h.cluster.inNamespace(executionAPI, "parsedefinitions"), "ParseDefinition",
	}
}

// report names every rule that has not started everything it could.
func report(notef func(string, ...any), p *plan.Plan, outcomes []plan.Outcome) {
	started := 0
	for _, o := range outcomes {
		started += o.Started
		switch {
		case o.Error != "":
			notef("rule %s: %s", o.Rule, o.Error)
		case o.Started == 0 || o.Reason != "":
			notef("rule %s: %s", o.Rule, describe(o))
		}
		if len(o.Ignored) > 0 && o.Matched > 0 {
			notef("rule %s: %s of its scanSpec have no effect: spec.cascades of the Scan does not inherit them", o.Rule, strings.Join(o.Ignored, ", "))
		}
	}
	notef("%d findings, %d rules, %d Scans started", p.Findings(), len(outcomes), started)
}

func describe(o plan.Outcome) string {
	text := o.Reason
	if o.Started == 0 {
		text = "not fired: " + text
	}
	if o.Duplicates > 0 {
		text += fmt.Sprintf(" (%d equal ones were left out)", o.Duplicates)
	}
	if o.Held > 0 {
		text += fmt.Sprintf(" (%d were left out)", o.Held)
	}
	if o.Refused > 0 {
		text += fmt.Sprintf(" (%d were refused)", o.Refused)
	}
	return text
}
