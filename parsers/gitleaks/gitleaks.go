// SPDX-License-Identifier: Apache-2.0

package gitleaks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
)

// repoURL is the annotation of a Scan that says where the repository can be looked at.
const repoURL = "metadata.scan.securecodebox.io/git-repo-url"

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "gitleaks-json",
		Summary:    "gitleaks JSON report (--report-format json)",
		Parse:      parse,
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	raw, err := in.Source.Open(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	report := finding.NewReader(raw, finding.Limits{MaxElement: in.Limits.MaxElement, MaxDepth: in.Limits.MaxDepth})
	prefix := commitPrefix(in.Scan.Metadata.Annotations[repoURL])
	for {
		element, err := report.Next()
		if errors.Is(err, io.EOF) || isEmpty(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the gitleaks report: %w", err)
		}
		if err := parseLeak(element, in.Limits.MaxDepth, prefix, emit); err != nil {
			return fmt.Errorf("leak %d: %w", report.Count()-1, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// isEmpty tells a report that stands for no leaks though it is no array.
func isEmpty(err error) bool {
	var notArray *finding.NotArrayError
	return errors.As(err, &notArray) &&
		(notArray.Found == finding.NothingFound || notArray.Found == finding.NullFound)
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

func parseLeak(element []byte, maxDepth int, prefix string, emit sdk.Emit) error {
	v, err := finding.DecodeValue(element, maxDepth)
	if err != nil {
		return err
	}
	leak, ok := v.(finding.Object)
	if !ok {
		return errors.New("is not an object")
	}
	severity, err := severityOf(leak)
	if err != nil {
		return err
	}
	f := finding.Finding{
		Description: finding.String("The name of the rule which triggered the finding: " + textOf(leak, "RuleID")),
		OSILayer:    finding.String("APPLICATION"),
		Category:    finding.String("Potential Secret"),
		Severity:    finding.String(severity),
		Attributes:  finding.Object{{Key: "commit", Value: prefix + textOf(leak, "Commit")}},
	}
	for _, copied := range []struct{ to, from string }{
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
		if v, ok := leak.Get(copied.from); ok {
			f.Attributes = append(f.Attributes, finding.Member{Key: copied.to, Value: v})
		}
	}
	// RuleID is a string in every report that gitleaks writes. Anything else is passed on for the schema to refuse.
	if f.Name = leak.Text("RuleID"); f.Name.IsAbsent() {
		if rule, ok := leak.Get("RuleID"); ok {
			f.Extra.Set("name", rule)
		}
	}
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

// textOf is the value of a key inside a composed text: "undefined" where it is missing.
func textOf(leak finding.Object, key string) string {
	v, ok := leak.Get(key)
	if !ok {
		return "undefined"
	}
	return finding.ToString(v)
}
