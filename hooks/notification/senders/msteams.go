// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"errors"
	"strings"

	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// NewTeams makes what posts to Microsoft Teams: to a workflow ("when a Teams webhook request is received") or to one of
// the incoming webhooks that came before. Both take the same card.
func NewTeams(s *channel.Settings) (channel.Messenger, error) { return newIncoming(s, checkTeams) }

// checkTeams reads answers of incoming webhooks that say with a status of 200 that nothing was posted.
func checkTeams(answer *delivery.Answer) error {
	text := string(answer.Body)
	if !strings.Contains(text, "message delivery failed") {
		return nil
	}
	err := errors.New("it does not post the message: " + delivery.Excerpt(text))
	for _, passing := range []string{"error 429", "error 500", "error 502", "error 503", "error 504"} {
		if strings.Contains(text, passing) {
			return delivery.TryAgain(err, 0)
		}
	}
	return err
}
