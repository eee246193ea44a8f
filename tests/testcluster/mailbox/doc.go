// SPDX-License-Identifier: Apache-2.0

// Package mailbox is a real mail server for tests: SMTP on a free loopback port, with STARTTLS
// and authentication. It keeps the mails that it accepts, and breaks connections off where a test
// asks for that.
package mailbox
