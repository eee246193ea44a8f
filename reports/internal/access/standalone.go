// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/scanyard/scanyard/reports/internal/server"
)

// namespaceKey is where a user's only namespace stands.
const namespaceKey = "reports.scanyard.io/namespace"

// Standalone is who may do what where there is no kube-apiserver. Without tokens and without a CA everybody may do
// everything: such a server is reached from its own machine only.
type Standalone struct {
	// TokenFile has lines of token,user,group1|group2 and, for who may do everything in one namespace only, its name.
	TokenFile string
	// ClientCA is a file of CAs of client certificates: the name is the user, the organisations are the groups.
	ClientCA string
	// Namespaces are those that exist; nil: all do.
	Namespaces []string
}

// Apply sets it up.
func (s *Standalone) Apply(config *genericapiserver.RecommendedConfig) ([]server.Task, error) {
	authenticate, tasks, err := s.authenticator()
	if err != nil {
		return nil, err
	}
	config.Authentication.Authenticator = onlyOpen(group.NewAuthenticatedGroupAdder(authenticate))
	config.Authorization.Authorizer = authorizer.AuthorizerFunc(authorize)
	if s.Namespaces != nil {
		config.AdmissionControl = namespaces(s.Namespaces)
	}
	return tasks, nil
}

func (s *Standalone) authenticator() (authenticator.Request, []server.Task, error) {
	var ways []authenticator.Request
	var tasks []server.Task
	if s.ClientCA != "" {
		authority, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", s.ClientCA)
		if err != nil {
			return nil, nil, fmt.Errorf("read the CA of clients: %w", err)
		}
		ways = append(ways, x509.NewDynamic(authority.VerifyOptions, x509.CommonNameUserConversion))
		tasks = append(tasks, server.Task{Name: "client-ca", Run: func(ctx context.Context) error {
			authority.Run(ctx, 1)
			return nil
		}})
	}
	if s.TokenFile != "" {
		tokens, err := readTokens(s.TokenFile)
		if err != nil {
			return nil, nil, err
		}
		ways = append(ways, bearertoken.New(tokens))
	}
	if len(ways) > 0 {
		return union.NewFailOnError(ways...), tasks, nil
	}
	everybody := &user.DefaultInfo{Name: "standalone", Groups: []string{user.SystemPrivilegedGroup}}
	return authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: everybody}, true, nil
	}), nil, nil
}

// tokens are users by the hashes of their tokens.
type tokens map[[sha256.Size]byte]*user.DefaultInfo

// AuthenticateToken implements authenticator.Token.
func (t tokens) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	hash := sha256.Sum256([]byte(token))
	for known, info := range t {
		if subtle.ConstantTimeCompare(known[:], hash[:]) == 1 {
			return &authenticator.Response{User: info}, true, nil
		}
	}
	return nil, false, nil
}

func readTokens(file string) (tokens, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	defer func() { _ = opened.Close() }() // it was read only
	found := tokens{}
	lines := bufio.NewScanner(opened)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, ",")
		if len(parts) < 3 || len(parts) > 4 || parts[0] == "" || parts[1] == "" {
			return nil, fmt.Errorf("read the tokens: line %d of %s must be token,user,group1|group2[,namespace]", number, file)
		}
		info := &user.DefaultInfo{Name: parts[1]}
		if parts[2] != "" {
			info.Groups = strings.Split(parts[2], "|")
		}
		if len(parts) == 4 && parts[3] != "" {
			info.Extra = map[string][]string{namespaceKey: {parts[3]}}
		}
		found[sha256.Sum256([]byte(parts[0]))] = info
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	if len(found) == 0 {
		return nil, errors.New("read the tokens: " + file + " has none")
	}
	return found, nil
}

// discoveryPaths are what every user sees.
var discoveryPaths = []string{"/api", "/apis", "/openapi"}

func authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	who := attributes.GetUser()
	if who == nil {
		return authorizer.DecisionDeny, "nobody asks", nil
	}
	if !attributes.IsResourceRequest() {
		path := attributes.GetPath()
		shown := slices.ContainsFunc(discoveryPaths, func(open string) bool { return path == open || strings.HasPrefix(path, open+"/") })
		if isOpen(path) || (shown && who.GetName() != user.Anonymous) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	namespace := who.GetExtra()[namespaceKey]
	switch {
	case len(namespace) > 0:
		if attributes.IsResourceRequest() && attributes.GetNamespace() == namespace[0] {
			return authorizer.DecisionAllow, "", nil
		}
	case slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup):
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "the token file does not allow it", nil
}

// namespaces are those that exist.
type namespaces []string

var _ admission.ValidationInterface = namespaces{}

// Handles implements admission.Interface.
func (namespaces) Handles(operation admission.Operation) bool { return operation == admission.Create }

// Validate implements admission.ValidationInterface.
func (n namespaces) Validate(_ context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if namespace := attributes.GetNamespace(); namespace != "" && !slices.Contains(n, namespace) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace)
	}
	return nil
}
