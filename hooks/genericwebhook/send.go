// SPDX-License-Identifier: Apache-2.0

package genericwebhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/render"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
	"github.com/scanyard/scanyard/podkit/process"
)

// maxWhole is how many bytes of findings a template is given at once; decoded they take several times as much.
const maxWhole = 2 << 20

// Handle sends the Scan and its findings.
func (h *handler) Handle(ctx context.Context, s *sdk.Session) error {
	run := &run{handler: h, session: s, client: s.Sender(delivery.Options{Remote: "the webhook", Timeout: h.timeout})}
	switch {
	case h.batch > 0:
		return run.batches(ctx)
	case h.template != nil:
		return run.rendered(ctx)
	}
	return run.whole(ctx)
}

type run struct {
	*handler

	session *sdk.Session
	client  *delivery.Client
}

// post sends one request. The parts distinguish it from other requests of this Scan.
func (r *run) post(ctx context.Context, body delivery.Body, parts ...string) error {
	_, err := r.client.Do(ctx, &delivery.Request{
		URL: r.address, Header: r.header, Body: body, Signer: r.signer,
		Key: r.session.Key(append([]string{r.address, r.source}, parts...)...),
	})
	return err
}

// whole streams everything in one request.
func (r *run) whole(ctx context.Context) error {
	// The Scan in the body changes while hooks run, the findings do not: the key is made of those.
	var sum string
	body, err := sdk.Stage(ctx, func(ctx context.Context, w io.Writer) error {
		hash := sha256.New()
		err := writePayload(w, r.session.Scan().Raw, func(add func([]byte) error) error {
			return r.session.EachMarked(ctx, func(element []byte) error {
				hash.Write(element)
				return add(element)
			})
		})
		if sum == "" {
			sum = hex.EncodeToString(hash.Sum(nil))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	return r.post(ctx, body, "all", sum)
}

// rendered makes one request of everything.
func (r *run) rendered(ctx context.Context) error {
	all := &delivery.Batch{}
	hash, size := sha256.New(), 0
	err := r.session.EachMarked(ctx, func(element []byte) error {
		if size += len(element); size > maxWhole {
			return process.Misconfigured(fmt.Errorf("the findings are more than the %d MiB that a template is given at once; set WEBHOOK_BATCH_SIZE", maxWhole>>20))
		}
		hash.Write(element)
		all.Items = append(all.Items, delivery.Item{Data: bytes.Clone(element)})
		return nil
	})
	if err != nil {
		return err
	}
	body, err := r.fill(all)
	if err != nil || body == nil {
		return err
	}
	return r.post(ctx, body, "all", hex.EncodeToString(hash.Sum(nil)))
}

// batches makes requests with a bounded number of findings each, and at least one.
func (r *run) batches(ctx context.Context) error {
	send := func(ctx context.Context, b *delivery.Batch) ([]delivery.Failure, error) {
		body, err := r.body(b)
		if err != nil || body == nil {
			return nil, err
		}
		return nil, r.post(ctx, body, append([]string{"batch"}, b.IDs()...)...)
	}
	limits := delivery.Limits{Count: r.batch}
	if r.template != nil {
		limits.Bytes = maxWhole
	}
	batches := r.client.NewBatcher(limits, send)
	if err := r.session.Deliver(ctx, batches, func(_ string, element []byte) ([]byte, error) { return element, nil }); err != nil {
		return err
	}
	if batches.Count() > 0 {
		return nil
	}
	_, err := send(ctx, &delivery.Batch{})
	return err
}

func (r *run) body(b *delivery.Batch) (delivery.Body, error) {
	if r.template != nil {
		return r.fill(b)
	}
	return b.Join(`{"scan":`+string(r.session.Scan().Raw)+`,"findings":[`, ",", `],"batch":{"number":`+strconv.Itoa(b.Number+1)+`}}`), nil
}

// fill makes the template's text; nil where that is blank, so that a template can decide to send nothing.
func (r *run) fill(b *delivery.Batch) (delivery.Body, error) {
	scan, err := render.Data(r.session.Scan().Raw)
	if err != nil {
		return nil, fmt.Errorf("read Scan: %w", err)
	}
	findings := make([]any, len(b.Items))
	for i := range b.Items {
		if findings[i], err = render.Data(b.Items[i].Data); err != nil {
			return nil, fmt.Errorf("read finding: %w", err)
		}
	}
	text, err := r.template.Render(map[string]any{
		"scan": scan, "findings": findings, "batch": map[string]any{"number": b.Number + 1},
	})
	if err != nil {
		return nil, process.Misconfigured(err)
	}
	if strings.TrimSpace(text) == "" {
		r.session.Notef("the template makes nothing of %d findings, so nothing is sent for them", len(findings))
		return nil, nil // no body and no error is what this function is for
	}
	if r.makesJSON() && !json.Valid([]byte(text)) {
		return nil, process.Misconfigured(errors.New("WEBHOOK_TEMPLATE makes no valid JSON; put values into it with toJson, or set WEBHOOK_CONTENT_TYPE"))
	}
	return delivery.Bytes(text), nil
}

// writePayload writes the JSON document without ever holding more of it than one finding.
func writePayload(w io.Writer, scan []byte, each func(add func([]byte) error) error) error {
	for _, part := range [][]byte{[]byte(`{"scan":`), scan, []byte(`,"findings":`)} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("write payload: %w", err)
		}
	}
	findings := finding.NewWriter(w)
	if err := each(findings.WriteRaw); err != nil {
		return err
	}
	if err := findings.Close(); err != nil {
		return fmt.Errorf("write payload: %w", err)
	}
	if _, err := w.Write([]byte("}")); err != nil {
		return fmt.Errorf("write payload: %w", err)
	}
	return nil
}
