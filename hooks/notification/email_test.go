// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/hooks/notification/senders"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
	"github.com/scanyard/scanyard/tests/testcluster/mailbox"
)

const mailChannel = "- {name: mail, type: email, template: email, endPoint: 'sec@example.com, Ops <ops@example.com>'}"

// mailRun runs the hook with a mail channel and a server.
func mailRun(t *testing.T, w *sdktest.World, b *testMailbox, env map[string]string) sdktest.Result {
	t.Helper()
	all := map[string]string{
		"NOTIFICATION_CHANNELS": mailChannel, "NODE_EXTRA_CA_CERTS": b.caFile,
		"SMTP_CONFIG": "smtp://me@corp.example:s3cr3t%2F1@mail.example.com", "EMAIL_FROM": "Security",
	}
	maps.Copy(all, env)
	got := w.Run(t, newHook(options{dial: b.Dial}), all)
	if strings.Contains(got.Stderr, "s3cr3t") {
		t.Errorf("a credential is printed: %s", got.Stderr)
	}
	return got
}

func TestMail(t *testing.T) {
	b := newMailbox(t, mailbox.Options{})
	w := newWorld(t)
	if got := mailRun(t, w, b, nil); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	mails := b.Mails()
	if len(mails) != 1 {
		t.Fatalf("%d mails", len(mails))
	}
	m := mails[0]
	if !m.TLS || m.User != "me@corp.example" || m.Password != "s3cr3t/1" {
		t.Errorf("TLS %t, user %q", m.TLS, m.User)
	}
	if m.From.String() != `"Security" <me@corp.example>` || m.Sender != "me@corp.example" || m.Header.Get("Date") != "Tue, 01 Jan 2030 12:00:00 +0000" {
		t.Errorf("from %s, envelope %s, date %s", m.From, m.Sender, m.Header.Get("Date"))
	}
	if diff := cmp.Diff([]string{"sec@example.com", "ops@example.com"}, m.Recipients); diff != "" {
		t.Errorf("to (-want +got):\n%s", diff)
	}
	// The same Scan once more, as a Job that is started again: the mail is the same.
	if got := mailRun(t, w, b, nil); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	if first, second := m.Header.Get("Message-Id"), b.Mails()[1].Header.Get("Message-Id"); first != second || !strings.HasSuffix(first, "@corp.example>") {
		t.Errorf("Message-Id %s, then %s", first, second)
	}
}

func TestMailSettings(t *testing.T) {
	cases := map[string]struct {
		env    map[string]string
		server mailbox.Options
		want   string // in stderr; nothing for success
		check  func(mailbox.Mail) bool
	}{
		"FullSender":      {map[string]string{"EMAIL_FROM": "Sec <sec@corp.example>"}, mailbox.Options{}, "", func(m mailbox.Mail) bool { return m.Sender == "sec@corp.example" && m.From.Name == "Sec" }},
		"NoSender":        {map[string]string{"EMAIL_FROM": "", "SMTP_CONFIG": "smtp://mail.example.com:25"}, mailbox.Options{}, "", func(m mailbox.Mail) bool { return m.Sender == "scanyard@mail.example.com" && m.TLS && m.User == "" }},
		"NoTLSNoPassword": {map[string]string{"SMTP_CONFIG": "smtp://mail.example.com:25"}, mailbox.Options{WithoutTLS: true}, "", func(m mailbox.Mail) bool { return !m.TLS }},
		"NoTLS":           {nil, mailbox.Options{WithoutTLS: true}, "the mail server at mail.example.com:587 cannot be used", nil},
		"PlainOnPurpose":  {map[string]string{"SMTP_CONFIG": "smtp://u:s3cr3t@mail.example.com?ignoreTLS=true"}, mailbox.Options{InsecureAuth: true}, "", func(m mailbox.Mail) bool { return !m.TLS && m.User == "u" }},
		"UnknownCA":       {map[string]string{"NODE_EXTRA_CA_CERTS": ""}, mailbox.Options{}, "certificate", nil},
		"AnyCA":           {map[string]string{"NODE_EXTRA_CA_CERTS": "", "SMTP_CONFIG": "smtp://u:s3cr3t@mail.example.com?tls.rejectUnauthorized=false"}, mailbox.Options{}, "", func(m mailbox.Mail) bool { return m.TLS }},
		"WrongPassword":   {map[string]string{"SMTP_CONFIG": "smtp://s3cr3tuser:wrong@mail.example.com"}, mailbox.Options{User: "me", Password: "right"}, "the mail server at mail.example.com:587 answers 535", nil},
		"NoAddress":       {map[string]string{"SMTP_CONFIG": "mail.example.com:s3cr3t"}, mailbox.Options{}, "SMTP_CONFIG is not an smtp:// or smtps:// address", nil},
		"Port":            {map[string]string{"SMTP_CONFIG": "smtp://mail.example.com:99999"}, mailbox.Options{}, "SMTP_CONFIG: the port", nil},
		"NotSet":          {map[string]string{"SMTP_CONFIG": ""}, mailbox.Options{}, "SMTP_CONFIG is not set", nil},
		"Recipient":       {map[string]string{"NOTIFICATION_CHANNELS": "- {type: email, template: email, endPoint: nobody}"}, mailbox.Options{}, `endPoint is "nobody"`, nil},
		"NoRecipient":     {map[string]string{"NOTIFICATION_CHANNELS": "- {type: email, template: email}"}, mailbox.Options{}, "no recipient is named", nil},
		"Copies": {map[string]string{"NOTIFICATION_CHANNELS": "- {type: email, endPoint: a@b.c, templateText: '{subject: \"a\\nb\", text: t, cc: c@d.e, bcc: f@g.h, replyTo: i@j.k}'}"}, mailbox.Options{}, "", func(m mailbox.Mail) bool {
			return cmp.Equal(m.Recipients, []string{"a@b.c", "c@d.e", "f@g.h"}) && m.Header.Get("Cc") == "<c@d.e>" && m.Header.Get("Bcc") == "" && m.Header.Get("Reply-To") == "<i@j.k>" && m.Subject == "a b"
		}},
		"HTMLOnly":   {map[string]string{"NOTIFICATION_CHANNELS": "- {type: email, endPoint: a@b.c, templateText: '{subject: s, html: <b>}'}"}, mailbox.Options{}, "", func(m mailbox.Mail) bool { return strings.TrimSpace(m.HTML) == "<b>" && m.Text == "" }},
		"Attachment": {map[string]string{"NOTIFICATION_CHANNELS": "- {type: email, endPoint: a@b.c, templateText: '{text: s, attachments: []}'}"}, mailbox.Options{}, `"attachments", which mails do not have`, nil},
		"Empty":      {map[string]string{"NOTIFICATION_CHANNELS": "- {type: email, endPoint: a@b.c, templateText: '{subject: s}'}"}, mailbox.Options{}, "neither text nor html", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newMailbox(t, c.server)
			got := mailRun(t, newWorld(t), b, c.env)
			if (got.ExitCode != 0) != (c.want != "") || !strings.Contains(got.Stderr, c.want) || strings.Contains(got.Stderr, "attempts") {
				t.Fatalf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, c.want)
			}
			if name == "WrongPassword" && got.ExitCode != exitcode.Refused {
				t.Errorf("exit code %d", got.ExitCode)
			}
			mails := b.Mails()
			if (len(mails) == 1) != (c.want == "") || c.check != nil && !c.check(mails[0]) {
				t.Errorf("mails %+v", mails)
			}
		})
	}
}

// TestMailAnnotation lets the Scan name who hears of it.
func TestMailAnnotation(t *testing.T) {
	b := newMailbox(t, mailbox.Options{})
	w := newWorld(t)
	w.Scan = strings.Replace(scanErrored, `"uid"`, `"annotations":{"`+senders.AnnotationEmail+`":"team@example.com"},"uid"`, 1)
	if got := mailRun(t, w, b, nil); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	m := b.Mails()[0]
	if !cmp.Equal(m.Recipients, []string{"team@example.com"}) || m.Subject != "The nmap security scan nmap-x failed" || !strings.Contains(m.HTML, "&lt;exit&gt; code 1 &amp; more") || !strings.Contains(m.Text, "<exit> code 1 & more") {
		t.Errorf("mail %+v", m)
	}
}

// TestMailWithFaults holds that a mail is sent again when it may pass, and only then.
func TestMailWithFaults(t *testing.T) {
	busy := &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try again later"}
	unknown := &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	cases := map[string]struct {
		refuse func(n int, to string) *smtp.SMTPError
		drop   func(n int) (before, after bool)
		mails  int
		want   string
	}{
		"Greylisted": {func(n int, _ string) *smtp.SMTPError {
			if n < 3 {
				return busy
			}
			return nil
		}, nil, 1, ""},
		"ForEver": {func(int, string) *smtp.SMTPError { return busy }, nil, 0, "given up after 5 attempts"},
		"RefusedRecipient": {func(_ int, to string) *smtp.SMTPError {
			if to == "ops@example.com" {
				return unknown
			}
			return nil
		}, nil, 0, "the mail server at mail.example.com:587 answers 550"},
		"BreaksOff": {nil, func(n int) (bool, bool) { return n == 0, false }, 1, ""},
		// SMTP has no way to ask whether a mail was taken: it comes twice, with one Message-ID.
		"BreaksOffAfterwards": {nil, func(n int) (bool, bool) { return false, n == 0 }, 2, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newMailbox(t, mailbox.Options{Refuse: c.refuse, Drop: c.drop})
			w := newWorld(t)
			got := mailRun(t, w, b, nil)
			if (got.ExitCode != 0) != (c.want != "") || !strings.Contains(got.Stderr, c.want) || len(b.Mails()) != c.mails {
				t.Errorf("exit code %d, %d mails, stderr %q", got.ExitCode, len(b.Mails()), got.Stderr)
			}
			ids := map[string]bool{}
			for _, m := range b.Mails() {
				ids[m.Header.Get("Message-Id")] = true
			}
			if len(ids) > 1 {
				t.Errorf("several Message-IDs: %v", ids)
			}
		})
	}
}

// TestMailKilled ends the hook while the server has the mail in hand, and starts it again.
func TestMailKilled(t *testing.T) {
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprintf("Taken%t", taken), func(t *testing.T) {
			w := newWorld(t)
			ctx, kill := context.WithCancelCause(t.Context())
			defer kill(nil)
			b := newMailbox(t, mailbox.Options{Drop: func(n int) (bool, bool) {
				if n == 0 {
					kill(errors.New("killed"))
				}
				return n == 0 && !taken, n == 0 && taken
			}})
			env := map[string]string{"NOTIFICATION_CHANNELS": mailChannel, "NODE_EXTRA_CA_CERTS": b.caFile, "SMTP_CONFIG": "smtp://u:s3cr3t@mail.example.com"}
			if got := w.RunUntil(ctx, t, newHook(options{dial: b.Dial}), env); got.ExitCode == 0 {
				t.Error("killed, and yet the exit code is 0")
			}
			if got := w.Run(t, newHook(options{dial: b.Dial}), env); got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			if n := len(b.Mails()); n < 1 || !taken && n != 1 {
				t.Errorf("%d mails", n)
			}
		})
	}
}
