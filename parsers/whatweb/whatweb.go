// SPDX-License-Identifier: Apache-2.0

package whatweb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "whatweb-json",
		Summary:    "WhatWeb JSON log (--log-json)",
		Kinds:      kinds(),
		Reach:      "targets in the log; WhatWeb leaves out those that do not answer",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	return []sdk.Kind{{
		Category:   "WEB APPLICATION",
		When:       "a target that answered",
		Severities: []string{finding.Informational},
		Attributes: []sdk.Attribute{
			{Name: "requestConfig", Type: sdk.Text | sdk.AsReported, Doc: "the User-Agent that WhatWeb used"},
			{Name: "ip_addresses", Type: sdk.List, Doc: "one element, null where WhatWeb does not say"},
			{Name: "country", Type: sdk.Text | sdk.Null, Doc: "name and code: UNITED STATES/US"},
			{Name: "HTML5", Type: sdk.Bool | sdk.Optional},
		},
		MoreAttributes: true,
		Identity:       []string{"location"},
	}}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	raw, err := in.Source.Open(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	buffered := bufio.NewReader(raw)
	if err := refuseAborted(buffered); err != nil {
		return err
	}
	log := jsonstream.NewReader(buffered, in.Limits.JSON())
	kind, err := log.Kind()
	if err != nil {
		return err
	}
	switch kind {
	case jsonstream.Nothing:
		in.ReachUnknown("the log is empty")
		return nil
	case jsonstream.Array:
		err = readTargets(ctx, in, log, emit)
	default:
		in.ReachUnknown("the log is not a list of targets")
		err = log.Skip()
	}
	if err != nil {
		return err
	}
	return log.End()
}

// readTargets reads a log of targets. Entries without keys are none.
func readTargets(ctx context.Context, in *sdk.Input, log *jsonstream.Reader, emit sdk.Emit) error {
	answered := 0
	err := log.Array(func(i int) error {
		target, err := log.Value()
		if err != nil {
			return err
		}
		if hasKeys(target) {
			answered++
		}
		if err := parseTarget(target, emit); err != nil {
			return fmt.Errorf("target %d: %w", i, err)
		}
		return ctx.Err()
	})
	if answered == 0 {
		in.NothingReached("no target answered")
		return err
	}
	in.Reached("%s answered", sdk.Counted(answered, "target", "targets"))
	return err
}

// aborted is all that WhatWeb writes when it refuses its arguments.
const aborted = "[\n"

func refuseAborted(raw *bufio.Reader) error {
	const mark = "\uFEFF"
	start, err := raw.Peek(len(mark + aborted + "?"))
	if !errors.Is(err, io.EOF) {
		return nil // it goes on, or fails when it is read
	}
	if strings.TrimPrefix(string(start), mark) == aborted {
		return errors.New("the log ends after its first line, which happens when WhatWeb is given invalid arguments; " +
			"check the parameters of the scan")
	}
	return nil
}

func parseTarget(v any, emit sdk.Emit) error {
	if v == nil {
		return errors.New("is null, must be an object")
	}
	if !hasKeys(v) {
		return nil
	}
	target, ok := v.(finding.Object)
	if !ok {
		return errors.New("is not an object")
	}
	agent, err := userAgent(target)
	if err != nil {
		return err
	}
	f := finding.Finding{
		Description: finding.Null(),
		Category:    finding.String("WEB APPLICATION"),
		OSILayer:    finding.String("NETWORK"),
		Severity:    finding.String(finding.Informational),
		Attributes:  agent,
	}
	ecma.SetText(&f, &f.Name, "name", target, "target")
	ecma.SetText(&f, &f.Location, "location", target, "target")
	if err := pluginsOf(target).describe(&f); err != nil {
		return err
	}
	return emit(&f)
}

// userAgent is requestConfig, the only member of the request's headers that is looked at.
func userAgent(target finding.Object) (finding.Object, error) {
	v, _ := target.Get("request_config")
	config, _ := v.(finding.Object)
	headers, _ := config.Get("headers")
	if headers == nil {
		return nil, errors.New("has no request_config.headers")
	}
	agent := finding.Object{}
	if o, ok := headers.(finding.Object); ok {
		ecma.Copy(&agent, "requestConfig", o, "User-Agent")
	}
	return agent, nil
}
