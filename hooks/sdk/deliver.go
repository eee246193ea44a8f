// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// DeliverySettings are the variables of every hook that sends to a remote service.
func DeliverySettings() []Setting {
	return []Setting{
		{Name: "DELIVERY_ATTEMPTS", Text: fmt.Sprintf("how often a request is made at most; default %d", delivery.DefaultAttempts)},
		{
			Name: "DELIVERY_BUDGET",
			Text: fmt.Sprintf(
				"how long after its first attempt a request is still repeated; default 5m, and %s until the remote service has answered well once",
				delivery.DefaultContact,
			),
		},
		{Name: "DELIVERY_TIMEOUT", Text: "how long the remote service may take without a sign of life; default 1m"},
		{Name: "HTTPS_PROXY", Text: "proxy for https addresses; default none"},
		{Name: "HTTP_PROXY", Text: "proxy for http addresses; default none"},
		{Name: "NO_PROXY", Text: "hosts, domains and networks that are reached without a proxy, separated by commas"},
		{Name: "NODE_EXTRA_CA_CERTS", Text: "file of CA certificates to trust beside the system's; the operator sets it where the cluster has its own CA"},
	}
}

// newSending reads the settings that all deliveries of the process share.
func newSending(p Process) (o delivery.Options, err error) {
	o = delivery.Options{Transport: p.Transport, Clock: p.Clock.WithDefaults(), Random: p.Random}
	if o.Attempts, err = p.Env.Count("DELIVERY_ATTEMPTS", 0); err != nil {
		return o, err
	}
	if o.Budget, err = p.Env.Duration("DELIVERY_BUDGET", 0); err != nil {
		return o, err
	}
	o.Timeout, err = p.Env.Duration("DELIVERY_TIMEOUT", 0)
	return o, err
}

// Sender makes a client of a remote service. Options that are not set come from the environment, see [DeliverySettings].
func (s *Session) Sender(o delivery.Options) *delivery.Client {
	o.Transport, o.Clock, o.Random = s.sending.Transport, s.sending.Clock, s.sending.Random
	if o.Attempts == 0 {
		o.Attempts = s.sending.Attempts
	}
	if o.Budget == 0 {
		o.Budget = s.sending.Budget
	}
	if o.Timeout == 0 {
		o.Timeout = s.sending.Timeout
	}
	if o.UserAgent == "" {
		o.UserAgent = "scanyard-" + s.hook
	}
	if o.Notef == nil {
		o.Notef = s.Notef
	}
	return delivery.New(o)
}

// Hook is the hook's name, such as generic-webhook.
func (s *Session) Hook() string { return s.hook }

// Now is the time by the session's clock.
func (s *Session) Now() time.Time { return s.sending.Clock.Now() }

// StoredAt is when the findings were stored: the same time when the Job is started again. Under an operator that writes no
// conditions it is now.
func (s *Session) StoredAt() (time.Time, error) {
	var scan struct {
		Status struct {
			Conditions []struct {
				Type, Status       string
				LastTransitionTime time.Time
			}
		}
	}
	if err := json.Unmarshal(s.Scan().Raw, &scan); err != nil {
		return time.Time{}, fmt.Errorf("read conditions of the Scan: %w", err)
	}
	for _, c := range scan.Status.Conditions {
		if c.Type == "Parsed" && c.Status == "True" {
			return c.LastTransitionTime, nil
		}
	}
	return s.Now(), nil
}

// Key derives an idempotency key for a delivery of this hook about this Scan. It is the same when the Job is started again.
// The parts distinguish deliveries: the destination, and a finding's id or the ids of a batch. Two hooks of one kind must
// not share keys: HOOK_NAME distinguishes them where it is set, else the parts must.
func (s *Session) Key(parts ...string) string {
	scan := s.scan.Metadata.UID
	if scan == "" {
		scan = s.scan.Metadata.Namespace + "/" + s.scan.Metadata.Name
	}
	return delivery.Key(append([]string{scan, s.hook, s.instance}, parts...)...)
}

// FindingID identifies a finding in the same way in every run of the hook: by its id or, since parsers of others may give
// none, by its content as [finding.ID] does.
func (s *Session) FindingID(element []byte) (string, error) {
	var f struct {
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(element, &f); err != nil {
		return "", fmt.Errorf("read id: %w", err)
	}
	var id string
	switch {
	case len(f.ID) == 0 || bytes.Equal(f.ID, []byte("null")):
	case f.ID[0] == '"':
		if err := json.Unmarshal(f.ID, &id); err != nil {
			return "", fmt.Errorf("read id: %w", err)
		}
	default:
		id = string(f.ID)
	}
	if id != "" {
		return id, nil
	}
	content, err := compare.Content(element)
	if err != nil {
		return "", err
	}
	return finding.ID(s.scan.Metadata.Namespace, s.scan.Spec.ScanType, content), nil
}

// Encode makes the data that is sent for a finding; nil leaves the finding out. The bytes it gets and those it returns are
// valid during the call.
type Encode func(id string, element []byte) ([]byte, error)

// Deliver streams all findings, marked as EXCEPTED says, through a Batcher, one batch in memory, and closes it.
func (s *Session) Deliver(ctx context.Context, to *delivery.Batcher, encode Encode) error {
	var sending error
	err := s.EachMarked(ctx, func(element []byte) error {
		id, err := s.FindingID(element)
		if err != nil {
			return err
		}
		data, err := encode(id, element)
		if err != nil || data == nil {
			return err
		}
		sending = to.Add(ctx, id, data)
		return sending
	})
	switch {
	case sending != nil:
		return sending // the error is about a batch, not about the next finding
	case err != nil:
		return err
	}
	return to.Close(ctx)
}
