// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// messenger sends what a template made of a Scan.
type messenger interface {
	send(ctx context.Context, t *task, n note) error
}

// note is what a template made, with a key that is the same when the Job is started again.
type note struct{ text, key string }

// reporter tells a far end of one finding, or that a Scan is Errored.
type reporter interface {
	report(ctx context.Context, t *task, e *entry) error
}

// task is one channel's part of a run.
type task struct {
	*Channel

	session *sdk.Session
	client  *delivery.Client
	scan    *scan
}

// kind is what the types of channels differ in.
type kind struct {
	// farEnd is what it is called in messages.
	farEnd string
	// endPoint says what the channel's endPoint is; empty where it takes none.
	endPoint string
	// send and report make what sends messages, or reports findings one by one. A kind has one of them or both.
	send   func(*settings) (messenger, error)
	report func(*settings) (reporter, error)
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

// kinds are all types of channels: a new one is a file with its sender, and a line here.
var kinds = map[string]kind{
	"slack":       {farEnd: "Slack", endPoint: endPointIsVariable, send: newSlack, errored: "slack-errored", hearsOfFixed: true},
	"slack-app":   {farEnd: "Slack", endPoint: "nothing", send: newSlackApp, errored: "slack-errored", hearsOfFixed: true},
	"ms-teams":    {farEnd: "Microsoft Teams", endPoint: endPointIsVariable, send: newTeams, errored: "msteams-errored", hearsOfFixed: true},
	"rocket-chat": {farEnd: "Rocket.Chat", endPoint: endPointIsAddress, send: newRocketChat, errored: "rocket-chat-errored", hearsOfFixed: true},
	"mattermost":  {farEnd: "Mattermost", endPoint: endPointIsVariable, send: newMattermost, errored: "mattermost-errored", hearsOfFixed: true},
	"email":       {farEnd: "the mail server", endPoint: endPointIsAddress, send: newEmail, errored: "email-errored", hearsOfFixed: true},
	"webhook":     {farEnd: "the webhook", endPoint: endPointIsVariable, send: newWebhook, report: newWebhookReporter, hearsOfFixed: true},
	"trello":      {farEnd: "Trello", endPoint: endPointIsVariable, report: newTrello, ignoresTemplate: true},
	"pagerduty":   {farEnd: "PagerDuty", report: newPagerDuty, hearsOfFixed: true},
	"jira":        {farEnd: "Jira", report: newJira},
	"github":      {farEnd: "GitHub", report: newGitHub, hearsOfFixed: true},
	"gitlab":      {farEnd: "GitLab", report: newGitLab, hearsOfFixed: true},
}
