// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// AnnotationRocketChat of a Scan names its channel.
const AnnotationRocketChat = "notification.securecodebox.io/rocket-chat-channel"

// rocketChat posts to the method chat.postMessage of a Rocket.Chat server.
type rocketChat struct {
	address string
	header  http.Header
	channel string
}

// NewRocketChat makes what posts to a Rocket.Chat server.
func NewRocketChat(s *channel.Settings) (channel.Messenger, error) {
	address := s.Channel.EndPoint
	if _, err := delivery.ParseURL(address); err != nil {
		return nil, fmt.Errorf("endPoint %w", err)
	}
	token, err := s.Require("ROCKET_CHAT_AUTH_TOKEN")
	if err != nil {
		return nil, err
	}
	user, err := s.Require("ROCKET_CHAT_USER_ID")
	if err != nil {
		return nil, err
	}
	header := channel.JSONHeader("X-Auth-Token", token, "X-User-Id", user)
	return &rocketChat{address, header, s.Text("ROCKET_CHAT_DEFAULT_CHANNEL", "")}, nil
}

// Send posts to the channel that the Scan names, or to the default one.
func (r *rocketChat) Send(ctx context.Context, t *channel.Task, n channel.Note) error {
	value, err := message.ToObject(n.Text)
	if err != nil {
		return err
	}
	// Templates of secureCodeBox name the channel themselves; others need not.
	if named, _ := value["channel"].(string); named == "" {
		value["channel"] = r.channel
		if channel := t.Scan.Metadata.Annotations[AnnotationRocketChat]; channel != "" {
			value["channel"] = channel
		}
	}
	return t.Post(ctx, r.address, r.header, value, checkRocketChat)
}

// checkRocketChat reads answers that say with a status of 200 that nothing was posted.
func checkRocketChat(answer *delivery.Answer) error {
	var said struct {
		Success *bool  `json:"success"`
		Error   string `json:"error"`
	}
	if err := answer.JSON(&said); err != nil || said.Success == nil || *said.Success {
		return nil //nolint:nilerr // without a word to the contrary the status counts
	}
	return errors.New("it does not post the message: " + delivery.Excerpt(said.Error))
}
