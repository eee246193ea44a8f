// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// jsonHeader is a header for JSON with further fields, given as names and values.
func jsonHeader(more ...string) http.Header {
	header := http.Header{"Content-Type": {"application/json"}}
	for pair := range slices.Chunk(more, 2) {
		header.Set(pair[0], pair[1])
	}
	return header
}

// post sends a value as JSON to a far end that cannot tell a repetition: a success whose text is lost stays one.
func (t *task) post(ctx context.Context, address string, header http.Header, value any, check func(*delivery.Answer) error) error {
	body, err := delivery.JSON(value)
	if err != nil {
		return err
	}
	_, err = t.client.Do(ctx, &delivery.Request{URL: address, Header: header, Body: body, Check: check, StatusIsEnough: true})
	return err
}

// address is the variable that the channel's endPoint names, which must hold one.
func (s *settings) address() (string, error) {
	if s.channel.EndPoint == "" {
		return "", fmt.Errorf("endPoint is not set; it names %s", s.channel.kind.endPoint)
	}
	address, err := s.env.RequireSecret(s.channel.EndPoint)
	if err != nil {
		return "", err
	}
	if _, err := delivery.ParseURL(address); err != nil {
		return "", fmt.Errorf("%s %w", s.channel.EndPoint, err)
	}
	return address, nil
}

// url is a setting that is an address, or fallback.
func (s *settings) url(name, fallback string) (string, error) {
	address, err := s.env.Secret(s.variable(name))
	if err != nil {
		return "", err
	}
	if address == "" {
		address = fallback
	}
	if address == "" {
		return "", fmt.Errorf("environment variable %s is not set", s.variable(name))
	}
	if _, err := delivery.ParseURL(address); err != nil {
		return "", fmt.Errorf("%s %w", s.variable(name), err)
	}
	return address, nil
}

// incoming posts messages to the address that its far end gave for a chat.
type incoming struct {
	address string
	check   func(*delivery.Answer) error
}

func newIncoming(s *settings, check func(*delivery.Answer) error) (messenger, error) {
	address, err := s.address()
	return &incoming{address, check}, err
}

func (i *incoming) send(ctx context.Context, t *task, n note) error {
	value, err := object(n.text)
	if err != nil {
		return err
	}
	return t.post(ctx, i.address, jsonHeader(), value, i.check)
}
