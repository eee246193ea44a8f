// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/notification/senders"
	"github.com/scanyard/scanyard/hooks/notification/trackers"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// Where secureCodeBox's chart mounts them.
const (
	defaultChannels  = "/home/app/config/notification-channel.yaml"
	defaultTemplates = "/home/app/hook-wrapper/hook/notification-templates"
)

// options are what tests change.
type options struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error) // connects to mail servers; nil is the network
}

// Hook registers notification.
func Hook() sdk.Hook { return newHook(options{}) }

func newHook(o options) sdk.Hook {
	return sdk.Hook{
		Name:     "notification",
		Summary:  "Tells chats, mail, incident managers and issue trackers about Scans and their findings.",
		Excepted: sdk.ExceptedOmit,
		Settings: append([]sdk.Setting{
			sdk.ExceptedSetting(sdk.ExceptedOmit),
			{Name: "NOTIFICATION_CHANNELS", Text: "recipients and what to send to each, as YAML; or NOTIFICATION_CHANNELS_FILE; default the file " + defaultChannels},
			{Name: "NOTIFICATION_TEMPLATES", Text: "folder with templates of your own, NAME.tmpl; default " + defaultTemplates},
			{Name: "SLACK_APP_TOKEN", Text: "slack-app: token of the bot (all credentials here may come from a file that NAME_FILE names)"},
			{Name: "SLACK_DEFAULT_CHANNEL", Text: "slack-app: where Scans without the annotation " + senders.AnnotationSlack + " go"},
			{Name: "ROCKET_CHAT_AUTH_TOKEN", Text: "rocket-chat: token; with ROCKET_CHAT_USER_ID"},
			{Name: "ROCKET_CHAT_USER_ID", Text: "rocket-chat: whose token it is"},
			{Name: "ROCKET_CHAT_DEFAULT_CHANNEL", Text: "rocket-chat: where Scans without the annotation " + senders.AnnotationRocketChat + " go"},
			{Name: "SMTP_CONFIG", Text: "email: mail server, as an address: smtp:// or smtps://, user and password, host and port"},
			{Name: "EMAIL_FROM", Text: "email: sender, an address or a name"},
			{Name: "TRELLO_KEY", Text: "trello: API key; with TRELLO_TOKEN and TRELLO_LIST"},
			{Name: "TRELLO_TOKEN", Text: "trello: token"},
			{Name: "TRELLO_LIST", Text: "trello: id of the list for the cards"},
			{Name: "TRELLO_LABELS", Text: "trello: ids of labels, separated by commas; default none"},
			{Name: "TRELLO_POS", Text: "trello: top or bottom of the list; default top"},
			{Name: "TRELLO_TITLE_PREFIX", Text: "trello: what the cards' names begin with; default nothing"},
			{Name: "TRELLO_CARDS_ENDPOINT", Text: "trello: another address than " + trackers.TrelloCards + "; the channel's endPoint names this variable"},
			{Name: "PAGERDUTY_ROUTING_KEY", Text: "pagerduty: integration key of the service (Events API v2)"},
			{Name: "PAGERDUTY_URL", Text: "pagerduty: address of the events API; default " + senders.PagerDutyEvents},
			{Name: "JIRA_URL", Text: "jira: address; with JIRA_PROJECT and JIRA_TOKEN"},
			{Name: "JIRA_USER", Text: "jira: whose token it is, in Jira Cloud; without it the token is a personal access token"},
			{Name: "JIRA_TOKEN", Text: "jira: token"},
			{Name: "JIRA_PROJECT", Text: "jira: key of the project"},
			{Name: "JIRA_ISSUE_TYPE", Text: "jira: default Task"},
			{Name: "JIRA_LABELS", Text: "jira: further labels, separated by commas"},
			{Name: "GITHUB_TOKEN", Text: "github: token that may write issues and set labels"},
			{Name: "GITHUB_REPOSITORY", Text: "github: owner/name"},
			{Name: "GITHUB_URL", Text: "github: address of the API; default " + trackers.GitHubAPI},
			{Name: "GITHUB_LABELS", Text: "github: further labels, separated by commas"},
			{Name: "GITLAB_TOKEN", Text: "gitlab: token with the scope api"},
			{Name: "GITLAB_PROJECT", Text: "gitlab: number or path of the project"},
			{Name: "GITLAB_URL", Text: "gitlab: default " + trackers.GitLabURL},
			{Name: "GITLAB_LABELS", Text: "gitlab: further labels, separated by commas"},
			{Name: "VULNMANAG_ENABLED", Text: "true: cards of ms-teams and slack have buttons that lead to your dashboard"},
			{Name: "VULNMANAG_DASHBOARD_URL", Text: "first button; {{ uid }} is the Scan's uid"},
			{Name: "VULNMANAG_DASHBOARD_FINDINGS_URL", Text: "second button"},
		}, sdk.DeliverySettings()...),
		New: func(env sdk.Env) (sdk.Handler, error) { return newHandler(env, o) },
	}
}

// maxAnswer has room for a page of a tracker's list.
const maxAnswer = 16 << 20

type handler struct{ channels []*recipient }

func newHandler(env sdk.Env, o options) (sdk.Handler, error) {
	text, err := readChannels(env)
	if err != nil {
		return nil, err
	}
	channels, err := parseChannels(text)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	templates := &message.Templates{Folder: env.Get("NOTIFICATION_TEMPLATES"), Env: env}
	if templates.Folder == "" {
		templates.Folder = defaultTemplates
	}
	var wrong failures
	for _, c := range channels {
		if err := c.prepare(env, templates, o); err != nil {
			wrong = append(wrong, fmt.Errorf("channel %q: %w", c.Name, err))
		}
	}
	return &handler{channels}, wrong.err()
}

func readChannels(env sdk.Env) (string, error) {
	text, err := env.Secret("NOTIFICATION_CHANNELS")
	if err != nil || text != "" {
		return text, err
	}
	content, err := os.ReadFile(defaultChannels)
	if err != nil {
		return "", fmt.Errorf("NOTIFICATION_CHANNELS is not set, and there is no configuration where it is expected: %w", err)
	}
	return string(content), nil
}

// failures are the failures of several channels, on one line.
type failures []error

func (f failures) Error() string {
	texts := make([]string, 0, len(f))
	for _, err := range f {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

// Unwrap gives each of them.
func (f failures) Unwrap() []error { return f }

func (f failures) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Handle notifies all channels, and fails in the end if one of them could not be notified.
func (h *handler) Handle(ctx context.Context, s *sdk.Session) error {
	scan, err := message.NewScan(s.Scan())
	if err != nil {
		return err
	}
	selection, err := newSelection(ctx, s, h.channels, scan.Errored())
	if err != nil {
		return err
	}
	choose := selection.choose
	if scan.Errored() {
		choose = selection.chooseForErrored
	}
	all, err := choose(ctx, h.channels)
	if err != nil {
		return err
	}
	var failed failures
	for i, c := range h.channels {
		t := &turn{c, &channel.Task{
			Channel: c.Channel, Session: s, Scan: scan, Errored: c.errored, Override: c.override,
			Client: s.Sender(delivery.Options{Remote: c.kind.remote, Secrets: c.secrets, MaxAnswer: maxAnswer}),
		}}
		if err := t.notify(ctx, selection, all[i]); err != nil {
			failed = append(failed, fmt.Errorf("channel %q: %w", c.Name, err))
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), failed.err())
		}
	}
	return failed.err()
}

// turn is when a recipient is notified.
type turn struct {
	*recipient

	task *channel.Task
}

// notify does one channel's part.
func (t *turn) notify(ctx context.Context, l *selection, s *message.Findings) error {
	errored := t.task.Scan.Errored()
	switch {
	case errored && t.SkipErrored:
		t.task.Session.Notef("channel %q: nothing is said, since the Scan is Errored", t.Name)
		return nil
	case errored && t.messenger == nil:
		return t.reportFailure(ctx)
	case errored:
		return t.sendMessage(ctx, t.errored, s)
	case s.Count == 0 && t.Skips():
		t.task.Session.Notef("channel %q: nothing is said, since no finding matches", t.Name)
		return nil
	case t.messenger == nil:
		return t.reportAll(ctx, l, s)
	}
	return t.sendMessage(ctx, t.message, s)
}

func (t *turn) sendMessage(ctx context.Context, m *message.Message, s *message.Findings) error {
	if more := s.Count - len(s.Kept); more > 0 {
		t.task.Session.Notef("channel %q: the template is given %d of %d findings", t.Name, len(s.Kept), s.Count)
	}
	text, err := m.Render(t.task.Scan, s)
	if err != nil {
		return err
	}
	kind := "message"
	if t.task.Scan.Errored() {
		kind = "errored"
	}
	// The Scan in a message changes while hooks run, the findings do not: the key is made of those.
	return t.messenger.Send(ctx, t.task, channel.Note{Text: text, Key: t.task.Session.Key(t.Name, t.Type, kind, m.Source, s.Sum())})
}
