// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
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

// exchange is a mechanism whose sessions say that the broker refuses the sink where they do not like its answer: to the client each such
// end is an error of its own. The answer itself is not told, since it may hold what was derived from the password.
type exchange struct{ sasl.Mechanism }

// Authenticate begins a session.
func (e exchange) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	inner, first, err := e.Mechanism.Authenticate(ctx, host)
	return session{inner, e.Name()}, first, err
}

type session struct {
	sasl.Session

	mechanism string
}

// Challenge answers the broker.
func (s session) Challenge(said []byte) (bool, []byte, error) {
	done, answer, err := s.Session.Challenge(said)
	if err != nil {
		err = fmt.Errorf("the exchange of %s failed: %w", s.mechanism, kerr.SaslAuthenticationFailed)
	}
	return done, answer, err
}
