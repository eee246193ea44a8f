// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

const (
	// AnnotationSlack of a Scan names its channel.
	AnnotationSlack  = "notification.securecodebox.io/slack-channel"
	slackPostMessage = "https://slack.com/api/chat.postMessage"
	// slackPause is for an answer that asks for one without saying how long.
	slackPause = 30 * time.Second
)

// NewSlack makes what posts to an incoming webhook of Slack. Its errors come with a status.
func NewSlack(s *channel.Settings) (channel.Messenger, error) { return newIncoming(s, nil) }

// slackApp posts as a bot, to the channel that the Scan names.
type slackApp struct {
	header  http.Header
	channel string
}

// NewSlackApp makes what posts to Slack as a bot.
func NewSlackApp(s *channel.Settings) (channel.Messenger, error) {
	token, err := s.Require("SLACK_APP_TOKEN")
	if err != nil {
		return nil, err
	}
	return &slackApp{channel.JSONHeader("Authorization", "Bearer "+token), s.Text("SLACK_DEFAULT_CHANNEL", "")}, nil
}

// Send posts to the channel that the Scan names, or to the default one.
func (a *slackApp) Send(ctx context.Context, t *channel.Task, n channel.Note) error {
	value, err := message.ToObject(n.Text)
	if err != nil {
		return err
	}
	channel := t.Scan.Metadata.Annotations[AnnotationSlack]
	if channel == "" {
		channel = a.channel
	}
	if channel == "" {
		return errors.New("no channel of Slack is named, neither by the Scan's annotation " + AnnotationSlack + " nor by SLACK_DEFAULT_CHANNEL")
	}
	value["channel"] = channel
	return t.Post(ctx, slackPostMessage, a.header, value, checkSlack)
}

// checkSlack reads answers that say with a status of 200 that nothing was posted.
func checkSlack(answer *delivery.Answer) error {
	var said struct {
		OK    *bool  `json:"ok"`
		Error string `json:"error"`
	}
	if err := answer.JSON(&said); err != nil || said.OK == nil || *said.OK {
		return nil //nolint:nilerr // without a word to the contrary the status counts
	}
	err := fmt.Errorf("it does not post the message: %s", delivery.Excerpt(said.Error))
	switch said.Error {
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		return delivery.TryAgain(err, slackPause)
	case "internal_error", "fatal_error", "service_unavailable", "request_timeout":
		return delivery.TryAgain(err, 0)
	}
	return err
}
