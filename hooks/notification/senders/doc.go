// SPDX-License-Identifier: Apache-2.0

// Package senders sends messages: to chats, to a mail server, to incident managers and to webhooks.
//
// Each file is one kind, and makes a Messenger, a Reporter or both of the settings of a channel. A remote service that says with a status
// of 200 that it has not taken a message has not taken it.
package senders
