// SPDX-License-Identifier: Apache-2.0

package gitreposcanner

import (
	"context"
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "git-repo-scanner-json",
		Summary:    "findings of git-repo-scanner",
		Kinds:      kinds(),
		Reach:      "repositories; without any it is unknown, as filters may leave none",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text, number, flag, list = sdk.Text | sdk.AsReported, sdk.Number | sdk.AsReported, sdk.Bool | sdk.AsReported, sdk.List | sdk.AsReported
	return []sdk.Kind{
		{
			Category:   "Git Repository",
			When:       "a repository of the organization, user or group",
			Severities: []string{finding.Informational},
			Attributes: []sdk.Attribute{
				{Name: "id", Type: number, Doc: "GitHub's or GitLab's"},
				{Name: "web_url", Type: text},
				{Name: "full_name", Type: text, Doc: "with the owner"},
				{Name: "owner_type", Type: text},
				{Name: "owner_id", Type: number},
				{Name: "owner_name", Type: text},
				{Name: "created_at", Type: text},
				{Name: "last_activity_at", Type: text},
				{Name: "visibility", Type: text},
				{Name: "archived", Type: flag},
				{Name: "topics", Type: list},
			},
			MoreAttributes: true,
			Identity:       []string{"attributes.web_url"},
		},
		{
			Category:       sdk.AnyCategory,
			When:           "anything else that the document holds",
			Severities:     []string{finding.Informational, finding.Low, finding.Medium, finding.High},
			MoreAttributes: true,
			Identity:       []string{"name", "location"},
		},
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	repositories := 0
	err := jsonstream.Read(ctx, in, func(document *jsonstream.Reader) error {
		kind, err := document.Kind()
		if err != nil {
			return err
		}
		switch kind {
		case jsonstream.Nothing:
			return errors.New("the input is empty, must be a JSON array of findings")
		case jsonstream.Null, jsonstream.Bool, jsonstream.Number, jsonstream.String:
			v, err := document.Value()
			if err == nil && ecma.Truthy(v) {
				err = fmt.Errorf("the document is %s, must be an array of findings", kind)
			}
			return err
		case jsonstream.Object, jsonstream.Array: // Array fails on an object
		}
		return document.Array(func(i int) error {
			element, err := document.Raw()
			if err != nil {
				return err
			}
			f := finding.Finding{}
			if err := f.UnmarshalJSON(element); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
			repositories++
			if err := emit(&f); err != nil {
				return err
			}
			return ctx.Err()
		})
	})
	if repositories == 0 {
		in.ReachUnknown("git-repo-scanner lists no repository, and does not report whether there are any")
	} else {
		in.Reached("%s listed", sdk.Counted(repositories, "repository is", "repositories are"))
	}
	return err
}
