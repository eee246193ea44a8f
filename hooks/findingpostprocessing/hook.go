// SPDX-License-Identifier: Apache-2.0

package findingpostprocessing

import (
	"context"
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/hooks/sdk"
)

// Hook registers finding-post-processing.
func Hook() sdk.Hook {
	return sdk.Hook{
		Name:    "finding-post-processing",
		Summary: "Changes findings that match rules, such as their severity.",
		Writes:  true,
		Settings: []sdk.Setting{
			{Name: "RULES", Text: `the rules, a JSON list: [{"matches":{"anyOf":[{"attributes":{"port":23}}]},"override":{"severity":"HIGH"}}]`},
		},
		New: newHandler,
	}
}

type handler struct{ rules []Rule }

func newHandler(env sdk.Env) (sdk.Handler, error) {
	text, err := env.Require("RULES")
	if err != nil {
		return nil, err
	}
	rules, err := ParseRules(text)
	if err != nil {
		return nil, fmt.Errorf("RULES: %w", err)
	}
	return &handler{rules: rules}, nil
}

// errMatched ends a look through findings.
var errMatched = errors.New("a rule matches")

// Handle changes the findings if there is anything to change.
func (h *handler) Handle(ctx context.Context, s *sdk.Session) error {
	if len(h.rules) == 0 {
		s.Notef("there are no rules")
		return nil
	}
	matches, err := h.anyMatch(ctx, s)
	if err != nil {
		return err
	}
	if !matches {
		s.Notef("no rule matches any finding, so none is written")
		return nil
	}
	matched := 0
	err = s.UpdateFindings(ctx, func(ctx context.Context, out *sdk.Output) error {
		matched = 0 // large outputs are made twice
		return s.EachFinding(ctx, func(element []byte) error {
			changed, hit, err := h.edit(element)
			if err != nil {
				return err
			}
			if hit {
				matched++
			}
			return out.WriteRaw(changed)
		})
	})
	if err != nil {
		return err
	}
	s.Notef("%d findings match a rule", matched)
	return nil
}

// anyMatch looks for the first finding that a rule matches: without one nothing must be written.
func (h *handler) anyMatch(ctx context.Context, s *sdk.Session) (bool, error) {
	err := s.EachFinding(ctx, func(element []byte) error {
		_, hit, err := h.edit(element)
		if err == nil && hit {
			err = errMatched
		}
		return err
	})
	if errors.Is(err, errMatched) {
		return true, nil
	}
	return false, err
}

// edit applies the rules to a finding. One that none of them matches comes back as it is.
func (h *handler) edit(element []byte) (changed []byte, hit bool, err error) {
	value, err := finding.DecodeValue(element, 0)
	if err != nil {
		return nil, false, err
	}
	for _, r := range h.rules {
		if r.matches(value) {
			value, hit = merge(value, r.override), true
		}
	}
	if !hit {
		return element, false, nil
	}
	changed, err = finding.AppendValue(nil, value)
	if err != nil {
		return nil, false, fmt.Errorf("encode finding: %w", err)
	}
	return changed, true, nil
}
