// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

// provider is an OIDC provider with two people, kim and ann.
type provider struct {
	server *httptest.Server
	dir    string
	// ca is a file with the authority of its certificate, config one that has kube-apiserver take its tokens.
	ca, config string
	// redirect is the port of the console that it sends people back to.
	redirect int
}

const (
	clientID     = "scanyard-console"
	clientSecret = "a-secret-of-the-provider"
	password     = "of-kim-and-ann"
	// oidcPrefix is what the cluster puts before the names of the provider's people.
	oidcPrefix = "oidc:"
)

// people are a storage.UserStore.
type people map[string]*storage.User

func (p people) GetUserByID(id string) *storage.User         { return p[id] }
func (p people) GetUserByUsername(name string) *storage.User { return p[name] }
func (people) ExampleClientID() string                       { return storage.ServiceUserID }

func startProvider() (*provider, error) {
	free, err := ports.Free(1)
	if err != nil {
		return nil, err
	}
	p := &provider{redirect: free[0]}
	storage.RegisterClients(storage.WebClient(clientID, clientSecret, fmt.Sprintf("http://127.0.0.1:%d/login/callback", p.redirect)))
	var handler http.Handler
	p.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	everybody := people{}
	for _, name := range []string{"kim", "ann"} {
		everybody[name] = &storage.User{ID: name, Username: name, Password: password, Email: name + "@example.com", EmailVerified: true}
	}
	handler = exampleop.SetupServer(p.server.URL, storage.NewStorage(everybody), slog.New(slog.DiscardHandler), false)
	if p.dir, err = os.MkdirTemp("", "scanyard-provider-"); err != nil {
		p.server.Close()
		return nil, err
	}
	p.ca, p.config = filepath.Join(p.dir, "ca.crt"), filepath.Join(p.dir, "authentication.yaml")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
		"jwt": []any{map[string]any{
			"issuer":        map[string]any{"url": p.server.URL, "audiences": []string{clientID}, "certificateAuthority": string(authority)},
			"claimMappings": map[string]any{"username": map[string]any{"claim": "sub", "prefix": oidcPrefix}},
		}},
	})
	err = errors.Join(err, os.WriteFile(p.ca, authority, 0o600), os.WriteFile(p.config, config, 0o600))
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *provider) stop() error {
	p.server.Close()
	return os.RemoveAll(p.dir)
}
