// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"net/http"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

const (
	pagerDutyEvents = "https://events.pagerduty.com/v2/enqueue"
	// Bounds of PagerDuty: characters of a summary, and bytes of an event, with room for the rest of it.
	maxSummary = 1024
	maxDetails = 400 << 10
)

// pagerDuty sends an event per finding. Its dedup_key is the finding's, so that a finding is one alert for as long as it
// is open, and resolves it when the finding is gone.
type pagerDuty struct{ address, routingKey string }

func newPagerDuty(s *settings) (reporter, error) {
	routingKey, err := s.require("PAGERDUTY_ROUTING_KEY")
	if err != nil {
		return nil, err
	}
	address, err := s.url("PAGERDUTY_URL", pagerDutyEvents)
	return &pagerDuty{address, routingKey}, err
}

func (p *pagerDuty) report(ctx context.Context, t *task, e *entry) error {
	event := map[string]any{"routing_key": p.routingKey, "dedup_key": e.key, "event_action": "resolve"}
	if e.state != compare.Fixed {
		event["event_action"], event["client"] = "trigger", "Scanyard"
		payload := map[string]any{
			"summary":  cut(maxSummary, e.title),
			"source":   source(t.scan, e),
			"severity": pagerDutySeverity(e.severity),
			"group":    t.scan.Metadata.Namespace,
		}
		if e.failure {
			payload["custom_details"] = map[string]any{"errorDescription": t.scan.reason}
		} else {
			payload["class"] = e.member("category")
			payload["component"] = t.scan.Spec.ScanType
			if len(e.element) <= maxDetails {
				payload["custom_details"] = e.rawMessage()
			}
		}
		event["payload"] = payload
		var err error
		if event, err = t.overridden(event, e); err != nil {
			return err
		}
	}
	body, err := delivery.JSON(event)
	if err != nil {
		return err
	}
	_, err = t.client.Do(ctx, &delivery.Request{Method: http.MethodPost, URL: p.address, Header: jsonHeader(), Body: body})
	return err
}

// source is what is affected: where the finding is, or the Scan.
func source(s *scan, e *entry) string {
	if location := e.member("location"); location != "" {
		return location
	}
	return s.Metadata.Namespace + "/" + s.Metadata.Name
}

func pagerDutySeverity(severity string) string {
	switch strings.ToUpper(severity) {
	case finding.High, "CRITICAL":
		return "critical"
	case finding.Medium:
		return "error"
	case finding.Low:
		return "warning"
	}
	return "info"
}
