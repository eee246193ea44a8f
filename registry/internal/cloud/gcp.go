// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/scanyard/scanyard/registry/internal/credentials"
)

const (
	gcpMetadata = "169.254.169.254"
	gcpToken    = "/computeMetadata/v1/instance/service-accounts/default/token"
	gcpUser     = "oauth2accesstoken"
)

// gcp asks the metadata server, which is GKE's own for pods with Workload Identity.
func (i *Identities) gcp(ctx context.Context, _ string) (granted, error) {
	server := gcpMetadata
	if other := i.Env("GCE_METADATA_HOST"); other != "" {
		server = other
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server+gcpToken, http.NoBody)
	if err != nil {
		return granted{}, fmt.Errorf("make a request: %w", err)
	}
	r.Header.Set("Metadata-Flavor", "Google")
	var answer struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := i.ask(r, &answer); err != nil {
		return granted{}, err
	}
	if answer.AccessToken == "" {
		return granted{}, errors.New("the metadata server gives no token")
	}
	until := i.Now().Add(time.Duration(answer.ExpiresIn) * time.Second)
	return granted{credentials.Credential{Username: gcpUser, Password: answer.AccessToken}, until}, nil
}
