// SPDX-License-Identifier: Apache-2.0

package persistencereports

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/hooks/sdk"
)

// Connect says how to reach the API server.
type Connect func(env sdk.Env) (*rest.Config, error)

// Hook registers persistence-reports. It writes to the API server, so it is told how to reach it.
func Hook(connect Connect) sdk.Hook {
	return sdk.Hook{
		Name:     "persistence-reports",
		Summary:  "Writes findings as PolicyReports, or as Reports of openreports.io.",
		Excepted: sdk.ExceptedMark,
		Settings: []sdk.Setting{
			sdk.ExceptedSetting(sdk.ExceptedMark),
			{Name: "REPORTS_GROUP", Text: "wgpolicyk8s.io (PolicyReports) or openreports.io (Reports); default wgpolicyk8s.io"},
			{Name: "REPORTS_CHUNK_RESULTS", Text: fmt.Sprintf("results per report, %d at most; default %d", maxChunkResults, maxChunkResults)},
			{Name: "REPORTS_MIN_SEVERITY", Text: "INFORMATIONAL, LOW, MEDIUM or HIGH: findings below it, or without a severity, are left out; default all are written"},
			{Name: "REPORTS_INFORMATIONAL_RESULT", Text: "the result of INFORMATIONAL findings: pass, fail, warn, error or skip; default warn"},
			{Name: "REPORTS_ZERO_FINDINGS", Text: "true: a Scan without findings has one report without results; default true"},
			{Name: "REPORTS_KEEP", Text: "true: reports stay when their Scan is deleted; default false"},
			{Name: "REPORTS_HISTORY_PER_SCHEDULE", Text: "with REPORTS_KEEP, of how many Scans of a ScheduledScan reports are kept; default 1"},
		},
		New: func(env sdk.Env) (sdk.Handler, error) {
			h, err := newHandler(env)
			if err != nil {
				return nil, err
			}
			return sdk.HandlerFunc(func(ctx context.Context, s *sdk.Session) error {
				config, err := connect(env)
				if err != nil {
					return fmt.Errorf("find the Kubernetes API: %w", err)
				}
				return h.handle(ctx, s, config)
			}), nil
		},
	}
}

const (
	// maxChunkResults is how many results one report has at most.
	maxChunkResults = 1000
	// maxChunkBytes is how large they are as JSON at most: API servers take three times as much in one object.
	maxChunkBytes = 1 << 20
)

type handler struct {
	api     policyreport.API
	chunk   policyreport.Limits
	mapping policyreport.Mapping
	zero    bool
	keep    bool
	history int
}

func newHandler(env sdk.Env) (*handler, error) {
	h := &handler{chunk: policyreport.Limits{Bytes: maxChunkBytes}}
	var err error
	if h.api, err = choose(env.Get("REPORTS_GROUP")); err != nil {
		return nil, err
	}
	if h.chunk.Results, err = env.Count("REPORTS_CHUNK_RESULTS", maxChunkResults); err != nil {
		return nil, err
	}
	if h.chunk.Results > maxChunkResults {
		return nil, fmt.Errorf("REPORTS_CHUNK_RESULTS is %d, want %d at most", h.chunk.Results, maxChunkResults)
	}
	if h.mapping, err = newMapping(env.Get("REPORTS_MIN_SEVERITY"), env.Get("REPORTS_INFORMATIONAL_RESULT")); err != nil {
		return nil, err
	}
	if h.zero, err = env.Bool("REPORTS_ZERO_FINDINGS", true); err != nil {
		return nil, err
	}
	if h.keep, err = env.Bool("REPORTS_KEEP", false); err != nil {
		return nil, err
	}
	h.history, err = env.Count("REPORTS_HISTORY_PER_SCHEDULE", 1)
	return h, err
}

func choose(group string) (policyreport.API, error) {
	apis := policyreport.APIs()
	if group == "" {
		return apis[0], nil
	}
	i := slices.IndexFunc(apis, func(a policyreport.API) bool { return a.Group == group })
	if i < 0 {
		return policyreport.API{}, fmt.Errorf("REPORTS_GROUP is %q, want wgpolicyk8s.io or openreports.io", group)
	}
	return apis[i], nil
}

func newMapping(least, informational string) (policyreport.Mapping, error) {
	m := policyreport.Mapping{Informational: "warn"}
	if least != "" {
		rank, known := policyreport.Ranks[strings.ToUpper(least)]
		if !known {
			return m, fmt.Errorf("REPORTS_MIN_SEVERITY is %q, want INFORMATIONAL, LOW, MEDIUM or HIGH", least)
		}
		m.Least = rank
	}
	if informational != "" {
		if !slices.Contains(policyreport.Outcomes, informational) {
			return m, fmt.Errorf("REPORTS_INFORMATIONAL_RESULT is %q, want one of %s", informational, strings.Join(policyreport.Outcomes, ", "))
		}
		m.Informational = informational
	}
	return m, nil
}
