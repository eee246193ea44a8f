// SPDX-License-Identifier: Apache-2.0

// Package channel is what the senders and trackers of a notification share: the entry of the configuration that they serve, its
// settings, and the task of notifying a recipient.
//
// What it decides:
//
//   - A setting may have another variable for a channel, and a secret may come from a file. Whatever was read as a secret is
//     remembered, so that it is never printed.
//   - What a template makes is laid over a report key by key.
package channel
