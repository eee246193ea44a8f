// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// openPaths are what everybody sees.
var openPaths = []string{"/healthz", "/livez", "/readyz", "/version"}

func isOpen(path string) bool {
	return slices.ContainsFunc(openPaths, func(open string) bool { return path == open || strings.HasPrefix(path, open+"/") })
}

// onlyOpen takes requests without credentials for what everybody sees, and no others.
func onlyOpen(inner authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := inner.AuthenticateRequest(req)
		switch {
		case ok && response.User.GetName() != user.Anonymous:
			return response, true, err
		case !isOpen(req.URL.Path):
			return nil, false, err
		}
		anonymous := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
		return &authenticator.Response{User: anonymous}, true, nil
	})
}
