// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/scanyard/scanyard/registry/internal/credentials"
)

const (
	azureAuthority = "https://login.microsoftonline.com/"
	azureScope     = "https://containerregistry.azure.net/.default"
	azureAssertion = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// azureLifetime is that of the registry's token, which does not tell it: three hours.
	azureLifetime = 3 * time.Hour
)

// azure exchanges the pod's token for one of Entra ID, and that for one of the registry (Microsoft Entra Workload ID).
func (i *Identities) azure(ctx context.Context, host string) (granted, error) {
	told, err := i.env("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE")
	if err != nil {
		return granted{}, err
	}
	client, tenant := told[0], told[1]
	assertion, err := token(told[2])
	if err != nil {
		return granted{}, err
	}
	authority := azureAuthority
	if other := i.Env("AZURE_AUTHORITY_HOST"); other != "" {
		authority = strings.TrimSuffix(other, "/") + "/"
	}
	r, err := form(ctx, authority+url.PathEscape(tenant)+"/oauth2/v2.0/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {client}, "scope": {azureScope},
		"client_assertion_type": {azureAssertion}, "client_assertion": {assertion},
	})
	if err != nil {
		return granted{}, err
	}
	var entra struct {
		AccessToken string `json:"access_token"`
	}
	if err := i.ask(r, &entra); err != nil {
		return granted{}, err
	}
	r, err = form(ctx, "https://"+host+"/oauth2/exchange", url.Values{
		"grant_type": {"access_token"}, "service": {host}, "tenant": {tenant}, "access_token": {entra.AccessToken},
	})
	if err != nil {
		return granted{}, err
	}
	var registry struct {
		RefreshToken string `json:"refresh_token"`
	}
	if err := i.ask(r, &registry); err != nil {
		return granted{}, err
	}
	if registry.RefreshToken == "" {
		return granted{}, errors.New("the registry gives no token")
	}
	return granted{credentials.Credential{IdentityToken: registry.RefreshToken}, i.Now().Add(azureLifetime)}, nil
}

func encode(values map[string][]string) string { return url.Values(values).Encode() }
