// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/notification/rules"
	"github.com/scanyard/scanyard/hooks/sdk"
)

// recipient is a channel that can be notified.
type recipient struct {
	*channel.Channel

	kind      kind
	rules     rules.Rules
	message   *message.Message // nil where findings are reported one by one
	errored   *message.Message // nil where the words for it are not of a template
	override  *message.Message // changes reports; optional
	messenger channel.Messenger
	reporter  channel.Reporter
	secrets   []string
}

// parseChannels reads the configuration, a YAML list of channels.
func parseChannels(text string) ([]*recipient, error) {
	encoded, err := message.ToJSON(text)
	if err != nil {
		return nil, err
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(encoded, &entries); err != nil {
		return nil, errors.New("want a list of channels")
	}
	channels := make([]*recipient, 0, len(entries))
	for i, entry := range entries {
		c, err := parseChannel(entry)
		if err != nil {
			return nil, fmt.Errorf("channel %d: %w", i, err)
		}
		channels = append(channels, c)
	}
	return channels, nil
}

func parseChannel(entry []byte) (*recipient, error) {
	c := &recipient{Channel: &channel.Channel{}}
	decoder := json.NewDecoder(bytes.NewReader(entry))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(c.Channel); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if c.Name == "" {
		c.Name = c.Type
	}
	var known bool
	if c.kind, known = kinds[c.Type]; !known {
		return nil, fmt.Errorf("there is no type %q; there are %s", c.Type, strings.Join(types(), ", "))
	}
	var err error
	if c.rules, err = rules.Parse(c.Rules, c.Wildcards); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	return c, c.check()
}

// check refuses what would be passed over in silence.
func (c *recipient) check() error {
	isWebhook := c.Type == "webhook"
	switch {
	case !isWebhook && (c.Method != "" || c.Headers != nil || c.ContentType != "" || c.PerFinding):
		return errors.New("method, headers, contentType and perFinding are for the type webhook")
	case c.Template != "" && c.TemplateText != "":
		return errors.New("both template and templateText are set; one is enough")
	case c.MaxFindings < 0:
		return errors.New("maxFindings is less than 0")
	case c.rules.Name(compare.Fixed) && !c.kind.reportsFixed:
		return fmt.Errorf("its rules name fixed, which the type %s cannot report", c.Type)
	case c.EndPoint != "" && c.kind.endPoint == "":
		return fmt.Errorf("the type %s takes no endPoint; its README says which variables it reads", c.Type)
	}
	return nil
}

// types are the names of all types of channels.
func types() []string { return slices.Sorted(maps.Keys(kinds)) }

// prepare reads the channel's settings and templates.
func (c *recipient) prepare(env sdk.Env, templates *message.Templates, o options) error {
	s := &channel.Settings{Env: env, Channel: c.Channel, EndPoint: c.kind.endPoint, Dial: o.dial}
	var err error
	switch {
	case c.kind.report != nil && (c.kind.send == nil || c.PerFinding):
		c.reporter, err = c.kind.report(s)
	default:
		c.messenger, err = c.kind.send(s)
	}
	if err != nil {
		return err
	}
	c.secrets = s.Secrets
	return c.prepareTemplates(templates)
}

func (c *recipient) prepareTemplates(templates *message.Templates) (err error) {
	named := c.Template != "" || c.TemplateText != ""
	switch {
	case c.kind.ignoresTemplate:
	case c.messenger == nil && named:
		c.override, err = templates.Find(c.Template, c.TemplateText)
	case c.messenger != nil && !named:
		return errors.New("template is not set")
	case c.messenger != nil:
		c.message, err = templates.Find(c.Template, c.TemplateText)
	}
	if err != nil {
		return err
	}
	switch {
	case c.ErroredTemplate != "":
		c.errored, err = templates.Find(c.ErroredTemplate, "")
	case c.kind.errored != "":
		c.errored, err = templates.BuiltIn(c.kind.errored)
	default:
		c.errored = c.message
	}
	return err
}
