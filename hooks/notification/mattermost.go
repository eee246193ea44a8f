// SPDX-License-Identifier: Apache-2.0

package notification

// newMattermost makes what posts to an incoming webhook of Mattermost. Its errors come with a status.
func newMattermost(s *settings) (messenger, error) { return newIncoming(s, nil) }
