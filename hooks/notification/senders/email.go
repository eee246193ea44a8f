// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// AnnotationEmail of a Scan names its recipients.
const AnnotationEmail = "notification.securecodebox.io/email-recipient"

// email sends a message to one or more addresses.
type email struct {
	server *mailServer
	to     string
	from   *mail.Address
}

// NewEmail makes what sends mails.
func NewEmail(s *channel.Settings) (channel.Messenger, error) {
	server, err := newMailServer(s)
	if err != nil {
		return nil, err
	}
	e := &email{server: server, to: s.Channel.EndPoint, from: newSender(s.Text("EMAIL_FROM", ""), server)}
	if e.to != "" {
		if _, err := mail.ParseAddressList(e.to); err != nil {
			return nil, fmt.Errorf("endPoint is %q, want one or more addresses", e.to)
		}
	}
	return e, nil
}

// newSender reads EMAIL_FROM, which is an address, or a name alone: then the address is the account's.
func newSender(text string, server *mailServer) *mail.Address {
	if address, err := mail.ParseAddress(text); err == nil {
		return address
	}
	address := &mail.Address{Name: text, Address: "scanyard@" + server.host}
	if account, err := mail.ParseAddress(server.user); err == nil {
		address.Address = account.Address
	}
	return address
}

// letter is what templates make.
type letter struct{ subject, text, html, cc, bcc, replyTo string }

func newLetter(text string) (*letter, error) {
	value, err := message.ToObject(text)
	if err != nil {
		return nil, err
	}
	l := &letter{}
	fields := map[string]*string{
		"subject": &l.subject, "text": &l.text, "html": &l.html, "cc": &l.cc, "bcc": &l.bcc, "replyTo": &l.replyTo,
	}
	for key, member := range value {
		field, ok := fields[key]
		if !ok {
			return nil, fmt.Errorf("the template makes %q, which mails do not have; they have subject, text, html, cc, bcc and replyTo", key)
		}
		*field = message.PlainText(member)
	}
	if l.text == "" && l.html == "" {
		return nil, errors.New("the template makes neither text nor html")
	}
	l.subject = strings.Join(strings.Fields(l.subject), " ")
	return l, nil
}

// Send sends a mail.
func (e *email) Send(ctx context.Context, t *channel.Task, n channel.Note) error {
	l, err := newLetter(n.Text)
	if err != nil {
		return err
	}
	to := t.Scan.Metadata.Annotations[AnnotationEmail]
	if to == "" {
		to = e.to
	}
	if to == "" {
		return errors.New("no recipient is named, neither by the Scan's annotation " + AnnotationEmail + " nor by endPoint")
	}
	message, err := e.message(l, to)
	if err != nil {
		return err
	}
	// A mail that arrives twice has one Message-ID: many servers and readers then show it once.
	_, domain, _ := strings.Cut(e.from.Address, "@")
	message.SetMessageIDWithValue(n.Key + "@" + domain)
	message.SetDateWithValue(t.Session.Now())
	return e.server.deliver(ctx, t, message)
}

func (e *email) message(l *letter, to string) (*gomail.Msg, error) {
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(e.from)
	if err := message.ToFromString(to); err != nil {
		return nil, fmt.Errorf("the recipient %q is not a list of addresses", to)
	}
	for _, more := range []struct {
		list string
		add  func(string) error
	}{{l.cc, message.CcFromString}, {l.bcc, message.BccFromString}, {l.replyTo, message.ReplyTo}} {
		if more.list == "" {
			continue
		}
		if err := more.add(more.list); err != nil {
			return nil, fmt.Errorf("the template makes %q, which is not a list of addresses", more.list)
		}
	}
	message.Subject(l.subject)
	switch l.text {
	case "":
		message.SetBodyString(gomail.TypeTextHTML, l.html)
	default:
		message.SetBodyString(gomail.TypeTextPlain, l.text)
		if l.html != "" {
			message.AddAlternativeString(gomail.TypeTextHTML, l.html)
		}
	}
	return message, nil
}

// deliver sends a message until it is taken, refused, or attempts or time are used up.
func (m *mailServer) deliver(ctx context.Context, t *channel.Task, message *gomail.Msg) error {
	// A batch of one: the Batcher pauses and gives up as requests do.
	attempts := t.Client.NewBatcher(delivery.Limits{Count: 1}, func(ctx context.Context, _ *delivery.Batch) ([]delivery.Failure, error) {
		err := m.sendOnce(ctx, message)
		if err == nil {
			return nil, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		failed := m.explain(err)
		if failed.passing {
			return []delivery.Failure{{Err: failed, Again: true}}, nil
		}
		return nil, failed
	})
	if err := attempts.Add(ctx, "mail", nil); err != nil {
		return err
	}
	return attempts.Close(ctx)
}
