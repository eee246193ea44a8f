// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/senders"
	"github.com/scanyard/scanyard/hooks/notification/trackers"
)

// kind is what the types of channels differ in.
type kind struct {
	// farEnd is what it is called in messages.
	farEnd string
	// endPoint says what the channel's endPoint is; empty where it takes none.
	endPoint string
	// send and report make what sends messages, or reports findings one by one. A kind has one of them or both.
	send   func(*channel.Settings) (channel.Messenger, error)
	report func(*channel.Settings) (channel.Reporter, error)
	// errored is the built-in template for Errored Scans. Reporters have words of their own.
	errored string
	// hearsOfFixed says that it makes sense to tell it of findings that are gone.
	hearsOfFixed bool
	// ignoresTemplate says that a template changes nothing, as users of secureCodeBox have it.
	ignoresTemplate bool
}

const (
	endPointIsVariable = "the variable that holds the address"
	endPointIsAddress  = "the address itself"
)

// kinds are all types of channels: a new one is a file in senders or trackers, and a line here.
var kinds = map[string]kind{
	"slack":       {farEnd: "Slack", endPoint: endPointIsVariable, send: senders.NewSlack, errored: "slack-errored", hearsOfFixed: true},
	"slack-app":   {farEnd: "Slack", endPoint: "nothing", send: senders.NewSlackApp, errored: "slack-errored", hearsOfFixed: true},
	"ms-teams":    {farEnd: "Microsoft Teams", endPoint: endPointIsVariable, send: senders.NewTeams, errored: "msteams-errored", hearsOfFixed: true},
	"rocket-chat": {farEnd: "Rocket.Chat", endPoint: endPointIsAddress, send: senders.NewRocketChat, errored: "rocket-chat-errored", hearsOfFixed: true},
	"mattermost":  {farEnd: "Mattermost", endPoint: endPointIsVariable, send: senders.NewMattermost, errored: "mattermost-errored", hearsOfFixed: true},
	"email":       {farEnd: "the mail server", endPoint: endPointIsAddress, send: senders.NewEmail, errored: "email-errored", hearsOfFixed: true},
	"webhook":     {farEnd: "the webhook", endPoint: endPointIsVariable, send: senders.NewWebhook, report: senders.NewWebhookReporter, hearsOfFixed: true},
	"trello":      {farEnd: "Trello", endPoint: endPointIsVariable, report: trackers.NewTrello, ignoresTemplate: true},
	"pagerduty":   {farEnd: "PagerDuty", report: senders.NewPagerDuty, hearsOfFixed: true},
	"jira":        {farEnd: "Jira", report: trackers.NewJira},
	"github":      {farEnd: "GitHub", report: trackers.NewGitHub, hearsOfFixed: true},
	"gitlab":      {farEnd: "GitLab", report: trackers.NewGitLab, hearsOfFixed: true},
}
