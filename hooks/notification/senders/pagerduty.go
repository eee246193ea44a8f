// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"context"
	"net/http"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

const (
	// PagerDutyEvents is the address of the events API.
	PagerDutyEvents = "https://events.pagerduty.com/v2/enqueue"
	// Bounds of PagerDuty: characters of a summary, and bytes of an event, with room for the rest of it.
	maxSummary = 1024
	maxDetails = 400 << 10
)

// pagerDuty sends an event per finding. Its dedup_key is the finding's, so that a finding is one alert for as long as it
// is open, and resolves it when the finding is gone.
type pagerDuty struct{ address, routingKey string }

// NewPagerDuty makes what reports findings as alerts.
func NewPagerDuty(s *channel.Settings) (channel.Reporter, error) {
	routingKey, err := s.Require("PAGERDUTY_ROUTING_KEY")
	if err != nil {
		return nil, err
	}
	address, err := s.URL("PAGERDUTY_URL", PagerDutyEvents)
	return &pagerDuty{address, routingKey}, err
}

// Report triggers or resolves an alert.
func (p *pagerDuty) Report(ctx context.Context, t *channel.Task, e *message.Entry) error {
	event := map[string]any{"routing_key": p.routingKey, "dedup_key": e.Key, "event_action": "resolve"}
	if e.State != compare.Fixed {
		event["event_action"], event["client"] = "trigger", "Scanyard"
		payload := map[string]any{
			"summary":  text.CutRunes(e.Title, maxSummary),
			"source":   source(t.Scan, e),
			"severity": pagerDutySeverity(e.Severity),
			"group":    t.Scan.Metadata.Namespace,
		}
		if e.Failure {
			payload["custom_details"] = map[string]any{"errorDescription": t.Scan.Reason}
		} else {
			payload["class"] = e.Member("category")
			payload["component"] = t.Scan.Spec.ScanType
			if len(e.Element) <= maxDetails {
				payload["custom_details"] = e.RawMessage()
			}
		}
		event["payload"] = payload
		var err error
		if event, err = t.Overridden(event, e); err != nil {
			return err
		}
	}
	body, err := delivery.JSON(event)
	if err != nil {
		return err
	}
	_, err = t.Client.Do(ctx, &delivery.Request{Method: http.MethodPost, URL: p.address, Header: channel.JSONHeader(), Body: body})
	return err
}

// source is what is affected: where the finding is, or the Scan.
func source(s *message.Scan, e *message.Entry) string {
	if location := e.Member("location"); location != "" {
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
