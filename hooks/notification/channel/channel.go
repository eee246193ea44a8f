// SPDX-License-Identifier: Apache-2.0

package channel

import "encoding/json"

// Channel is one entry of the configuration: the recipient, what to send, and the template.
type Channel struct {
	// Name is in messages about the channel, and distinguishes it from others of its type.
	Name string `json:"name"`
	// Type is the name of its kind.
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
}

// Skips says that the channel is to be silent where there is nothing to report.
func (c *Channel) Skips() bool { return c.SkipOnNone || c.SkipOnNoneAsWritten }
