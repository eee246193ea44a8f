// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"context"

	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// incoming posts messages to the address that its remote service gave for a chat.
type incoming struct {
	address string
	check   func(*delivery.Answer) error
}

func newIncoming(s *channel.Settings, check func(*delivery.Answer) error) (channel.Messenger, error) {
	address, err := s.Address()
	return &incoming{address, check}, err
}

// Send posts what the template made.
func (i *incoming) Send(ctx context.Context, t *channel.Task, n channel.Note) error {
	value, err := message.ToObject(n.Text)
	if err != nil {
		return err
	}
	return t.Post(ctx, i.address, channel.JSONHeader(), value, i.check)
}
