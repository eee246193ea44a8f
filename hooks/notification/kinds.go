// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/senders"
	"github.com/scanyard/scanyard/hooks/notification/trackers"
)

// kind is what the types of channels differ in.
type kind struct {
	// remote is what it is called in messages.
	remote string
	// endPoint says what the channel's endPoint is; empty where it takes none.
	endPoint string
	// send and report make what sends messages, or reports findings one by one. A kind has one of them or both.
	send   func(*channel.Settings) (channel.Messenger, error)
	report func(*channel.Settings) (channel.Reporter, error)
	// errored is the built-in template for Errored Scans. Reporters have words of their own.
	errored string
	// reportsFixed says that the kind can report findings that are gone.
	reportsFixed bool
	// ignoresTemplate says that a template changes nothing, as users of secureCodeBox have it.
	ignoresTemplate bool
}

const (
	endPointIsVariable = "the variable that holds the address"
	endPointIsAddress  = "the address itself"
)

// kinds are all types of channels: a new one is a file in senders or trackers, and a line here.
var kinds = map[string]kind{
	"slack":       {remote: "Slack", endPoint: endPointIsVariable, send: senders.NewSlack, errored: "slack-errored", reportsFixed: true},
	"slack-app":   {remote: "Slack", endPoint: "nothing", send: senders.NewSlackApp, errored: "slack-errored", reportsFixed: true},
	"ms-teams":    {remote: "Microsoft Teams", endPoint: endPointIsVariable, send: senders.NewTeams, errored: "msteams-errored", reportsFixed: true},
	"rocket-chat": {remote: "Rocket.Chat", endPoint: endPointIsAddress, send: senders.NewRocketChat, errored: "rocket-chat-errored", reportsFixed: true},
	"mattermost":  {remote: "Mattermost", endPoint: endPointIsVariable, send: senders.NewMattermost, errored: "mattermost-errored", reportsFixed: true},
	"email":       {remote: "the mail server", endPoint: endPointIsAddress, send: senders.NewEmail, errored: "email-errored", reportsFixed: true},
	"webhook":     {remote: "the webhook", endPoint: endPointIsVariable, send: senders.NewWebhook, report: senders.NewWebhookReporter, reportsFixed: true},
	"trello":      {remote: "Trello", endPoint: endPointIsVariable, report: trackers.NewTrello, ignoresTemplate: true},
	"pagerduty":   {remote: "PagerDuty", report: senders.NewPagerDuty, reportsFixed: true},
	"jira":        {remote: "Jira", report: trackers.NewJira},
	"github":      {remote: "GitHub", report: trackers.NewGitHub, reportsFixed: true},
	"gitlab":      {remote: "GitLab", report: trackers.NewGitLab, reportsFixed: true},
}
