// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

const annotationRocketChat = "notification.securecodebox.io/rocket-chat-channel"

// rocketChat posts to the method chat.postMessage of a Rocket.Chat server.
type rocketChat struct {
	address string
	header  http.Header
	channel string
}

func newRocketChat(s *settings) (messenger, error) {
	address := s.channel.EndPoint
	if _, err := delivery.ParseURL(address); err != nil {
		return nil, fmt.Errorf("endPoint %w", err)
	}
	token, err := s.require("ROCKET_CHAT_AUTH_TOKEN")
	if err != nil {
		return nil, err
	}
	user, err := s.require("ROCKET_CHAT_USER_ID")
	if err != nil {
		return nil, err
	}
	header := jsonHeader("X-Auth-Token", token, "X-User-Id", user)
	return &rocketChat{address, header, s.plain("ROCKET_CHAT_DEFAULT_CHANNEL", "")}, nil
}

func (r *rocketChat) send(ctx context.Context, t *task, n note) error {
	value, err := object(n.text)
	if err != nil {
		return err
	}
	// Templates of secureCodeBox name the channel themselves; others need not.
	if named, _ := value["channel"].(string); named == "" {
		value["channel"] = r.channel
		if channel := t.scan.Metadata.Annotations[annotationRocketChat]; channel != "" {
			value["channel"] = channel
		}
	}
	return t.post(ctx, r.address, r.header, value, checkRocketChat)
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
