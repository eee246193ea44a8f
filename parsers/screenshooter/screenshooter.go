// SPDX-License-Identifier: Apache-2.0

package screenshooter

import (
	"context"
	"errors"
	"io"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "screenshot-png",
		Summary:    "a screenshot of a website (PNG)",
		Kinds: []sdk.Kind{{
			Category:   "Screenshot",
			When:       "there is a screenshot",
			Severities: []string{finding.Informational},
			Attributes: []sdk.Attribute{{Name: "downloadLink", Type: sdk.Text | sdk.Optional, Doc: "of the image; it expires"}},
			Identity:   []string{"name"},
		}},
		Reach: "that there is an image",
		Parse: parse,
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	empty, err := isEmpty(ctx, in.Source)
	if err != nil {
		return err
	}
	if empty { // which is what the scanner leaves if the browser could not take one
		in.NothingReached("no screenshot could be taken")
		return nil
	}
	in.Reached("a screenshot was taken")
	parameters := in.Scan.Spec.Parameters
	if parameters == nil {
		return errors.New("the Scan has no parameters, so it is not known what the screenshot shows")
	}
	website := "undefined"
	f := finding.Finding{
		Category:   finding.String("Screenshot"),
		OSILayer:   finding.String("APPLICATION"),
		Severity:   finding.String(finding.Informational),
		Attributes: finding.Object{},
	}
	if len(parameters) > 0 {
		website = parameters[0]
		f.Location = finding.String(website)
	}
	f.Name = finding.String("Screenshot for " + website)
	f.Description = finding.String("Took a Screenshot for website: '" + website + "'")
	if link := in.Scan.Status.RawResultDownloadLink; link != "" {
		f.Attributes.Set("downloadLink", link)
	}
	return emit(&f)
}

// byteOrderMark alone is an empty text, and clients of this format take the image for a text.
const byteOrderMark = "\uFEFF"

func isEmpty(ctx context.Context, source sdk.Source) (bool, error) {
	raw, err := source.Open(ctx)
	if err != nil {
		return false, err
	}
	defer raw.Close()
	start := make([]byte, len(byteOrderMark)+1)
	n, err := io.ReadFull(raw, start)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return n == 0 || string(start[:n]) == byteOrderMark, nil
}
