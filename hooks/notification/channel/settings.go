// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// Settings are the variables of one channel. What was read is remembered, so that it is never printed.
type Settings struct {
	Env     sdk.Env
	Channel *Channel
	// EndPoint says what the channel's endPoint is.
	EndPoint string
	// Dial connects to mail servers; nil is the network.
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	Secrets []string
}

// Hide remembers a text that is never printed.
func (s *Settings) Hide(secret string) { s.Secrets = append(s.Secrets, secret) }

// Variable is the name of the variable that holds a setting for this channel.
func (s *Settings) Variable(name string) string {
	if other := s.Channel.Env[name]; other != "" {
		return other
	}
	return name
}

// Secret is a setting or what the file of NAME_FILE holds, or the empty text.
func (s *Settings) Secret(name string) (string, error) {
	value, err := s.Env.Secret(s.Variable(name))
	if err == nil && value != "" {
		s.Secrets = append(s.Secrets, value)
	}
	return value, err
}

// Require is secret for what must be there.
func (s *Settings) Require(name string) (string, error) {
	value, err := s.Env.RequireSecret(s.Variable(name))
	if err == nil {
		s.Secrets = append(s.Secrets, value)
	}
	return value, err
}

// Text is a setting that is not a secret, or fallback.
func (s *Settings) Text(name, fallback string) string {
	if value := s.Env.Get(s.Variable(name)); value != "" {
		return value
	}
	return fallback
}

// List is a setting that holds several words with commas between them.
func (s *Settings) List(name, fallback string) []string {
	var words []string
	for word := range strings.SplitSeq(s.Text(name, fallback), ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// Address is the variable that the channel's endPoint names, which must hold one.
func (s *Settings) Address() (string, error) {
	if s.Channel.EndPoint == "" {
		return "", fmt.Errorf("endPoint is not set; it names %s", s.EndPoint)
	}
	address, err := s.Env.RequireSecret(s.Channel.EndPoint)
	if err != nil {
		return "", err
	}
	if _, err := delivery.ParseURL(address); err != nil {
		return "", fmt.Errorf("%s %w", s.Channel.EndPoint, err)
	}
	return address, nil
}

// URL is a setting that is an address, or fallback.
func (s *Settings) URL(name, fallback string) (string, error) {
	address, err := s.Env.Secret(s.Variable(name))
	if err != nil {
		return "", err
	}
	if address == "" {
		address = fallback
	}
	if address == "" {
		return "", fmt.Errorf("environment variable %s is not set", s.Variable(name))
	}
	if _, err := delivery.ParseURL(address); err != nil {
		return "", fmt.Errorf("%s %w", s.Variable(name), err)
	}
	return address, nil
}
