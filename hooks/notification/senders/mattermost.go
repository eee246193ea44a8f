// SPDX-License-Identifier: Apache-2.0

package senders

import "github.com/scanyard/scanyard/hooks/notification/channel"

// NewMattermost makes what posts to an incoming webhook of Mattermost. Its errors come with a status.
func NewMattermost(s *channel.Settings) (channel.Messenger, error) { return newIncoming(s, nil) }
