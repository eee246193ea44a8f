// SPDX-License-Identifier: Apache-2.0

package zap

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/xmlsax"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "zap-xml",
		Summary:    "ZAP XML report (traditional-xml)",
		Kinds:      kinds(),
		Reach:      "alerts; without any it is unknown, since ZAP also lists sites that did not answer",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const textOrNull, copied = sdk.Text | sdk.Null, sdk.Text | sdk.Null | sdk.AsReported
	return []sdk.Kind{{
		Category:   sdk.AnyCategory,
		When:       "an alert of a site; the category is the alert's name, the severity its risk, HIGH where it has none",
		Severities: []string{finding.Informational, finding.Low, finding.Medium, finding.High},
		Attributes: []sdk.Attribute{
			{Name: "hostname", Type: sdk.Text | sdk.Optional, Doc: "of the site"},
			{Name: "port", Type: sdk.Text | sdk.Optional, Doc: "of the site; a text, not a number"},
			{Name: "zap_confidence", Type: copied, Doc: "0 to 4"},
			{Name: "zap_count", Type: copied, Doc: "how many instances ZAP has seen"},
			{Name: "zap_solution", Type: textOrNull},
			{Name: "zap_otherinfo", Type: textOrNull, Doc: "cut after 2048 characters"},
			{Name: "zap_reference", Type: textOrNull},
			{Name: "zap_cweid", Type: copied},
			{Name: "zap_wascid", Type: copied},
			{Name: "zap_riskcode", Type: copied, Doc: "0 to 3"},
			{Name: "zap_pluginid", Type: copied, Doc: "the rule"},
			{Name: "zap_finding_urls", Type: sdk.List, Doc: "the instances: objects with uri, method, param, attack, evidence"},
		},
		Identity: []string{"location", "attributes.zap_pluginid"},
	}}
}

// alertElements is how many times the largest element an alert with all its instances may take.
const alertElements = 2

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	raw, err := in.Source.Open(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	r := newReader(
		xmlsax.NewReader(raw, xmlsax.Limits{MaxTag: in.Limits.MaxElement, MaxDepth: in.Limits.MaxDepth}),
		alertElements*in.Limits.MaxElement,
	)
	w := writer{emit: emit}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := r.next()
		if errors.Is(err, io.EOF) {
			r.reportReach(in)
			return nil
		}
		if err != nil {
			return explain(err)
		}
		if err := w.write(r); err != nil {
			return err
		}
	}
}

// explain adds what a user can do about it.
func explain(err error) error {
	if errors.Is(err, xmlsax.ErrTruncated) {
		return fmt.Errorf("read the ZAP report: %w (ZAP was probably stopped before its end; run the scan again)", err)
	}
	return fmt.Errorf("read the ZAP report: %w", err)
}
