// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/scanyard/scanyard/console/internal/session"
)

// ProviderOptions name an OIDC provider.
type ProviderOptions struct {
	// Issuer is its address, as the API server knows it, ClientID the audience of its tokens.
	Issuer, ClientID string
	// ClientSecret is empty for a public client.
	ClientSecret string
	// Scopes are asked for beside openid.
	Scopes []string
	// Redirect is the address of the console that the provider sends people back to.
	Redirect string
	// Client asks the provider.
	Client *http.Client
	Now    func() time.Time
}

// Provider signs people in. It is asked where it is, what it can and which keys it has when somebody signs in first. It is safe for
// concurrent use.
type Provider struct {
	options ProviderOptions

	mu    sync.Mutex
	known *oidc.Provider
}

// NewProvider makes a Provider. It calls nobody yet.
func NewProvider(o ProviderOptions) *Provider { return &Provider{options: o} }

// discover asks the provider who it is, until it has answered once.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != nil {
		return p.known, nil
	}
	// Its keys are asked for later, too, when this request is long over.
	known, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.options.Client), p.options.Issuer)
	if err != nil {
		return nil, fmt.Errorf("ask the provider %s: %w", p.options.Issuer, err)
	}
	p.known = known
	return known, nil
}

func (p *Provider) config(known *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.options.ClientID, ClientSecret: p.options.ClientSecret, Endpoint: known.Endpoint(), RedirectURL: p.options.Redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, p.options.Scopes...),
	}
}

// Begin is the provider's page that an attempt goes on with.
func (p *Provider) Begin(ctx context.Context, a *session.Attempt) (string, error) {
	known, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return p.config(known).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// Finish is the ID token that a code of the provider stands for, and when it ends.
func (p *Provider) Finish(ctx context.Context, a *session.Attempt, code string) (token string, ends time.Time, err error) {
	known, err := p.discover(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	answer, err := p.config(known).Exchange(oidc.ClientContext(ctx, p.options.Client), code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("exchange the code: %w", refused(err))
	}
	token, ok := answer.Extra("id_token").(string)
	if !ok {
		return "", time.Time{}, errors.New("the provider has given no ID token")
	}
	verified, err := known.Verifier(&oidc.Config{ClientID: p.options.ClientID, Now: p.options.Now}).Verify(ctx, token)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("verify the ID token: %w", err)
	}
	if verified.Nonce != a.Nonce {
		return "", time.Time{}, errors.New("the ID token is of another sign-in")
	}
	return token, verified.Expiry, nil
}

// refused is what a provider says of a code, without the body of its answer, which could hold anything.
func refused(err error) error {
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("the provider answers %s %s", answer.Response.Status, answer.ErrorCode)
	}
	return err
}
