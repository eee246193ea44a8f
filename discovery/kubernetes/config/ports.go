// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Scheme returns the scheme of a port; false if the port is not a target.
func (c *PortsConfig) Scheme(p corev1.ServicePort) (string, bool) {
	if anyPort(c.Exclude, p.Port, p.Name) {
		return "", false
	}
	protocol := p.Protocol
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	if len(c.Protocols) > 0 && !slices.Contains(c.Protocols, protocol) {
		return "", false
	}
	app := ""
	if c.AppProtocols && p.AppProtocol != nil {
		app = strings.ToLower(*p.AppProtocol)
	}
	switch {
	case slices.Contains(c.HTTPS, p.Port), slices.Contains(c.HTTPSNames, p.Name), app == "https":
		return "https", true
	case slices.Contains(c.HTTP, p.Port), slices.Contains(c.HTTPNames, p.Name), app == "http", app == "kubernetes.io/h2c", c.All:
		return "http", true
	}
	return "", false
}

// Takes says whether a scanConfig wants a port.
func (r *Rule) Takes(port int32, name string) bool {
	return len(r.Ports) == 0 || anyPort(r.Ports, port, name)
}

func anyPort(all []intstr.IntOrString, port int32, name string) bool {
	return slices.ContainsFunc(all, func(p intstr.IntOrString) bool {
		if p.Type == intstr.Int {
			return p.IntVal == port
		}
		return p.StrVal == name || p.StrVal == strconv.Itoa(int(port))
	})
}
