// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// saslOf makes the mechanism of the option; nil for none. Secrets are read for each connection.
func saslOf(config sink.Config, dialer *trust.Client) (sasl.Mechanism, error) {
	name := config.Options["mechanism"]
	scrams := func(ctx context.Context) (scram.Auth, error) {
		m, err := dialer.Material(ctx)
		return scram.Auth{User: m.Username, Pass: m.Password.Reveal()}, err
	}
	switch name {
	case "":
		return nil, nil
	case "SCRAM-SHA-256":
		return scram.Sha256(scrams), nil
	case "SCRAM-SHA-512":
		return scram.Sha512(scrams), nil
	case "PLAIN", "OAUTHBEARER":
	default:
		return nil, fmt.Errorf("the mechanism %q is not known: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER", name)
	}
	if config.Insecure && !trust.IsLoopback(config.URL.Hostname()) {
		return nil, errors.New("insecure would send the password in plain text: use TLS, or a mechanism of SCRAM")
	}
	if name == "PLAIN" {
		return plain.Plain(func(ctx context.Context) (plain.Auth, error) {
			m, err := dialer.Material(ctx)
			return plain.Auth{User: m.Username, Pass: m.Password.Reveal()}, err
		}), nil
	}
	return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		m, err := dialer.Material(ctx)
		return oauth.Auth{Token: m.Token.Reveal()}, err
	}), nil
}
