// SPDX-License-Identifier: Apache-2.0

package gitleaks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// repoURL is the annotation of a Scan that says where the repository can be looked at.
const repoURL = "metadata.scan.securecodebox.io/git-repo-url"

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "gitleaks-json",
		Summary:    "gitleaks JSON report (--report-format json)",
		Kinds:      kinds(),
		Reach:      "leaks; without any it is unknown",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const asReported = sdk.Text | sdk.AsReported
	return []sdk.Kind{{
		Category:   "Potential Secret",
		When:       "a leak that gitleaks reports; the severity is that of the rule's tags HIGH or LOW",
		Severities: []string{finding.Medium, finding.High, finding.Low},
		Attributes: []sdk.Attribute{
			{Name: "commit", Type: sdk.Text, Doc: "a link to it, if the Scan says where the repository is"},
			{Name: "description", Type: asReported, Doc: "of the rule"},
			{Name: "offender", Type: asReported, Doc: "the secret"},
			{Name: "author", Type: asReported},
			{Name: "email", Type: asReported},
			{Name: "date", Type: asReported},
			{Name: "file", Type: asReported},
			{Name: "line_number", Type: sdk.Number | sdk.AsReported},
			{Name: "tags", Type: sdk.List, Doc: "of the rule"},
			{Name: "line", Type: asReported, Doc: "the text around the secret"},
		},
		Identity: []string{"name", "attributes.file", "attributes.offender"},
	}}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	prefix := commitPrefix(in.Scan.Metadata.Annotations[repoURL])
	leaks := 0
	err := jsonstream.Read(ctx, in, func(report *jsonstream.Reader) error {
		kind, err := report.Kind()
		switch {
		case err != nil:
			return err
		case kind == jsonstream.Nothing:
			return nil
		case kind == jsonstream.Null:
			return report.Skip()
		}
		return report.Array(func(i int) error {
			leak, err := report.Value()
			if err != nil {
				return err
			}
			if err := parseLeak(leak, prefix, emit); err != nil {
				return fmt.Errorf("leak %d: %w", i, err)
			}
			leaks++
			return ctx.Err()
		})
	})
	if leaks == 0 {
		in.ReachUnknown("gitleaks has found nothing, and does not report what it has looked through")
	} else {
		in.Reached("something was looked through: %s", sdk.Counted(leaks, "leak", "leaks"))
	}
	return err
}

func commitPrefix(repo string) string {
	switch {
	case repo == "":
		return ""
	case strings.HasSuffix(repo, "/"):
		return repo + "commit/"
	}
	return repo + "/commit/"
}

func parseLeak(v any, prefix string, emit sdk.Emit) error {
	leak, ok := v.(finding.Object)
	if !ok {
		return errors.New("is not an object")
	}
	severity, err := severityOf(leak)
	if err != nil {
		return err
	}
	f := finding.Finding{
		Description: finding.String("The name of the rule which triggered the finding: " + ecma.Property(leak, "RuleID")),
		OSILayer:    finding.String("APPLICATION"),
		Category:    finding.String("Potential Secret"),
		Severity:    finding.String(severity),
		Attributes:  finding.Object{{Key: "commit", Value: prefix + ecma.Property(leak, "Commit")}},
	}
	for _, c := range []struct{ to, from string }{
		{"description", "Description"},
		{"offender", "Secret"},
		{"author", "Author"},
		{"email", "Email"},
		{"date", "Date"},
		{"file", "File"},
		{"line_number", "StartLine"},
		{"tags", "Tags"},
		{"line", "Match"},
	} {
		ecma.Copy(&f.Attributes, c.to, leak, c.from)
	}
	ecma.SetText(&f, &f.Name, "name", leak, "RuleID")
	return emit(&f)
}

func severityOf(leak finding.Object) (string, error) {
	v, _ := leak.Get("Tags")
	switch tags := v.(type) {
	case []any:
		switch {
		case slices.Contains(tags, any(finding.High)):
			return finding.High, nil
		case slices.Contains(tags, any(finding.Low)):
			return finding.Low, nil
		}
		return finding.Medium, nil
	case nil:
		return "", errors.New("has no Tags; gitleaks 8 always writes them")
	}
	return "", errors.New("has Tags that are not an array")
}
