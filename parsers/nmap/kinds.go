// SPDX-License-Identifier: Apache-2.0

package nmap

import (
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
)

func kinds() []sdk.Kind {
	const textOrNull, optional = sdk.Text | sdk.Null, sdk.Text | sdk.Optional
	information := []string{finding.Informational}
	address := sdk.Attribute{Name: "ip_addresses", Type: sdk.List}
	hostname := sdk.Attribute{Name: "hostname", Type: textOrNull | sdk.Optional}
	system := sdk.Attribute{Name: "operating_system", Type: textOrNull, Doc: "nmap's best guess"}
	port := []sdk.Attribute{
		{Name: "port", Type: sdk.Number | sdk.Optional},
		{Name: "state", Type: optional, Doc: "as nmap names it: open, filtered, open|filtered"},
		{Name: "protocol", Type: optional},
		{Name: "method", Type: optional, Doc: "how the service was recognized: table or probed"},
		{Name: "service", Type: optional, Doc: "nmap's name of it"},
		{Name: "serviceProduct", Type: textOrNull},
		{Name: "serviceVersion", Type: textOrNull},
		{Name: "mac_address", Type: textOrNull},
		address, hostname, system,
	}
	banner := sdk.Kind{
		When: "script banner", Severities: information, Identity: []string{"location"},
		Attributes: []sdk.Attribute{{Name: "script", Type: sdk.Text}, {Name: "banner", Type: textOrNull}},
	}
	tcp, ftp := banner, banner
	tcp.Category = "TCP"
	ftp.Category = "FTP"
	ftp.When = "script ftp-anon (MEDIUM), or script banner on port 21"
	ftp.Severities = []string{finding.Medium, finding.Informational}
	ftp.Identity = []string{"location", "attributes.script"}
	ftp.Attributes = []sdk.Attribute{{Name: "script", Type: sdk.Text}, {Name: "banner", Type: textOrNull | sdk.Optional}}
	return []sdk.Kind{
		{
			Category: "Open Port", When: "a port of a host that is up, unless its state is closed",
			Severities: information, Identity: []string{"location"},
			Attributes: append([]sdk.Attribute{
				{Name: "tunnel", Type: sdk.Text, Doc: "ssl or none"},
				{Name: "scripts", Type: sdk.Map | sdk.Null, Doc: "script id to output"},
			}, port...),
		},
		{
			Category: "Host", When: "a host that is up", Severities: information, Identity: []string{"location"},
			Attributes: []sdk.Attribute{address, hostname, system},
		},
		ftp, tcp,
		{
			Category: "SMB", When: "a version that script smb-protocols lists: HIGH for SMBv1, MEDIUM below 2, LOW below 3",
			Severities: []string{finding.High, finding.Medium, finding.Low, finding.Informational},
			Identity:   []string{"location", "attributes.scripts"},
			Attributes: append([]sdk.Attribute{
				{Name: "scripts", Type: sdk.Text, Doc: "the version as the script prints it"},
				{Name: "smb_protocol_version", Type: sdk.Number | sdk.Null},
			}, port...),
		},
	}
}
