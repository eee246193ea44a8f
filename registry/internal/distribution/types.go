// SPDX-License-Identifier: Apache-2.0

package distribution

import "strings"

// hub is the host of Docker Hub's registry.
const hub = "registry-1.docker.io"

// Host gives the host that is asked for a host that people write.
func Host(host string) string {
	switch strings.ToLower(host) {
	case "docker.io", "index.docker.io":
		return hub
	}
	return host
}

// HasCatalog tells whether it makes sense to ask a registry for its catalogue, by the type of the Registry and the host without port.
// Some registries have none, and some give one to nobody.
func HasCatalog(registryType, host string) bool {
	host = strings.ToLower(host)
	switch {
	case Host(host) == hub, host == "public.ecr.aws", host == "ghcr.io", strings.HasSuffix(host, ".pkg.dev"):
		return false
	}
	return !strings.EqualFold(registryType, "ghcr")
}
