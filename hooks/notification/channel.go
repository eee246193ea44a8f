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
	"github.com/scanyard/scanyard/hooks/sdk"
)

// Channel is one entry of the configuration: whom to tell, of what, and in which words.
type Channel struct {
	// Name stands in messages about the channel, and tells it from others of its type.
	Name string `json:"name"`
	// Type is one of [Types].
	Type string `json:"type"`
	// Template is the name of a file in the templates' folder, or of a built-in one, without its ending.
	Template string `json:"template"`
	// TemplateText is a template itself, in place of the name of one.
	TemplateText string `json:"templateText"`
	// ErroredTemplate is the template for Scans that are Errored; each type has one built in.
	ErroredTemplate string `json:"erroredTemplate"`
	// Rules a finding must match, all of them.
	Rules json.RawMessage `json:"rules"`
	// Wildcards lets texts of the rules hold * and a leading !.
	Wildcards bool `json:"wildcards"`
	// EndPoint is the variable that holds the address, or for some types the address itself.
	EndPoint string `json:"endPoint"`
	// SkipOnNone says nothing where no finding matches.
	SkipOnNone bool `json:"skipNotificationOnZeroFindings"`
	// SkipOnNoneAsWritten is the same; it was documented under this name.
	SkipOnNoneAsWritten bool `json:"skipNotificationOnZeroFinding"`
	// SkipErrored says nothing about Scans that are Errored.
	SkipErrored bool `json:"skipErrored"`
	// MaxFindings bounds how many findings a template is given, or how many are reported one by one.
	MaxFindings int `json:"maxFindings"`
	// Env gives settings other variables: for a second channel of a type with other credentials.
	Env map[string]string `json:"env"`
	// Method, Headers (name to variable), ContentType and PerFinding are for webhooks.
	Method      string            `json:"method"`
	Headers     map[string]string `json:"headers"`
	ContentType string            `json:"contentType"`
	PerFinding  bool              `json:"perFinding"`

	kind      kind
	rules     []rule
	message   *message // nil where findings are reported one by one
	errored   *message // nil where the words for it are not of a template
	override  *message // changes reports; optional
	messenger messenger
	reporter  reporter
	secrets   []string
}

// ParseChannels reads the configuration, a YAML list of channels.
func ParseChannels(text string) ([]*Channel, error) {
	encoded, err := yamlToJSON(text)
	if err != nil {
		return nil, err
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(encoded, &entries); err != nil {
		return nil, errors.New("want a list of channels")
	}
	channels := make([]*Channel, 0, len(entries))
	for i, entry := range entries {
		c, err := parseChannel(entry)
		if err != nil {
			return nil, fmt.Errorf("channel %d: %w", i, err)
		}
		channels = append(channels, c)
	}
	return channels, nil
}

func parseChannel(entry []byte) (*Channel, error) {
	c := &Channel{}
	decoder := json.NewDecoder(bytes.NewReader(entry))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(c); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if c.Name == "" {
		c.Name = c.Type
	}
	var known bool
	if c.kind, known = kinds[c.Type]; !known {
		return nil, fmt.Errorf("there is no type %q; there are %s", c.Type, strings.Join(Types(), ", "))
	}
	var err error
	if c.rules, err = parseRules(c.Rules, c.Wildcards); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	return c, c.check()
}

// check refuses what would be passed over in silence.
func (c *Channel) check() error {
	isWebhook := c.Type == "webhook"
	switch {
	case !isWebhook && (c.Method != "" || c.Headers != nil || c.ContentType != "" || c.PerFinding):
		return errors.New("method, headers, contentType and perFinding are for the type webhook")
	case c.Template != "" && c.TemplateText != "":
		return errors.New("both template and templateText are set; one is enough")
	case c.MaxFindings < 0:
		return errors.New("maxFindings is less than 0")
	case c.wants(compare.Fixed) && !c.kind.hearsOfFixed:
		return fmt.Errorf("its rules name fixed, which the type %s cannot tell", c.Type)
	case c.EndPoint != "" && c.kind.endPoint == "":
		return fmt.Errorf("the type %s takes no endPoint; its README says which variables it reads", c.Type)
	}
	return nil
}

// Types are the names of all types of channels.
func Types() []string { return slices.Sorted(maps.Keys(kinds)) }

// skips says that the channel is to be silent where there is nothing to report.
func (c *Channel) skips() bool { return c.SkipOnNone || c.SkipOnNoneAsWritten }

// compares says that a rule asks for the previous run.
func (c *Channel) compares() bool {
	return slices.ContainsFunc(c.rules, func(r rule) bool { return r.states != nil })
}

// wants says that a rule names this state.
func (c *Channel) wants(state compare.State) bool {
	return slices.ContainsFunc(c.rules, func(r rule) bool { return slices.Contains(r.states, state) })
}

// matches says whether the channel is to hear of a finding.
func (c *Channel) matches(value any, state compare.State) bool {
	for i := range c.rules {
		if !c.rules[i].matches(value, state) {
			return false
		}
	}
	return true
}

// prepare reads the channel's settings and templates.
func (c *Channel) prepare(env sdk.Env, templates *library, o options) error {
	s := &settings{env: env, channel: c, dial: o.dial}
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
	c.secrets = s.secrets
	return c.prepareTemplates(templates)
}

func (c *Channel) prepareTemplates(templates *library) (err error) {
	named := c.Template != "" || c.TemplateText != ""
	switch {
	case c.kind.ignoresTemplate:
	case c.messenger == nil && named:
		c.override, err = templates.find(c.Template, c.TemplateText)
	case c.messenger != nil && !named:
		return errors.New("template is not set")
	case c.messenger != nil:
		c.message, err = templates.find(c.Template, c.TemplateText)
	}
	if err != nil {
		return err
	}
	switch {
	case c.ErroredTemplate != "":
		c.errored, err = templates.find(c.ErroredTemplate, "")
	case c.kind.errored != "":
		c.errored, err = templates.builtIn(c.kind.errored)
	default:
		c.errored = c.message
	}
	return err
}

// settings are the variables of one channel. What was read is remembered, so that it is never printed.
type settings struct {
	env     sdk.Env
	channel *Channel
	dial    dialFunc
	secrets []string
}

// variable is the name of the variable that holds a setting for this channel.
func (s *settings) variable(name string) string {
	if other := s.channel.Env[name]; other != "" {
		return other
	}
	return name
}

// secret is a setting or what the file of NAME_FILE holds, or the empty text.
func (s *settings) secret(name string) (string, error) {
	value, err := s.env.Secret(s.variable(name))
	if err == nil && value != "" {
		s.secrets = append(s.secrets, value)
	}
	return value, err
}

// require is secret for what must be there.
func (s *settings) require(name string) (string, error) {
	value, err := s.env.RequireSecret(s.variable(name))
	if err == nil {
		s.secrets = append(s.secrets, value)
	}
	return value, err
}

// plain is a setting that is no secret, or fallback.
func (s *settings) plain(name, fallback string) string {
	if value := s.env.Get(s.variable(name)); value != "" {
		return value
	}
	return fallback
}

// list is a setting that holds several words with commas between them.
func (s *settings) list(name, fallback string) []string {
	var words []string
	for word := range strings.SplitSeq(s.plain(name, fallback), ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}
