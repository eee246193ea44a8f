// SPDX-License-Identifier: Apache-2.0

// Package mailbox is a real mail server to notify: SMTP on a free loopback port, with
// STARTTLS and one account. It keeps what it takes, and takes mail only over TLS from
// that account.
package mailbox
