// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// realms are token services that are known to serve registries under other names; one that begins with a dot is any host below.
var realms = []string{
	"auth.docker.io", "ghcr.io", ".azurecr.io", "gcr.io", ".gcr.io", ".pkg.dev", "quay.io", "gitlab.com", "public.ecr.aws", "icr.io", ".icr.io",
}

// Realm tells whether credentials for a registry may be sent to a token realm. Both are hosts without ports.
func Realm(registry, realm string) bool {
	registry, _ = split(registry)
	realm, _ = split(realm)
	if realm == "" {
		return false
	}
	if registry == realm || slices.ContainsFunc(realms, func(known string) bool { return fitsRealm(known, realm) }) {
		return true
	}
	// An address has no domain.
	for _, host := range []string{registry, realm} {
		if _, err := netip.ParseAddr(host); err == nil {
			return false
		}
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(registry)
	other, errOther := publicsuffix.EffectiveTLDPlusOne(realm)
	return err == nil && errOther == nil && domain == other
}

func fitsRealm(known, realm string) bool {
	if strings.HasPrefix(known, ".") {
		return strings.HasSuffix(realm, known)
	}
	return realm == known
}
