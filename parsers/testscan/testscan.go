// SPDX-License-Identifier: Apache-2.0

package testscan

import (
	"context"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
)

// invalidFindings is the environment variable that asks, with "true", for a finding that breaks the schema.
const invalidFindings = "PRODUCE_INVALID_FINDINGS"

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "test-txt",
		Summary:    "fixed findings of the test-scan scanner",
		Kinds:      kinds(),
		Reach:      "nothing: the raw result is not read",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	severities := []string{finding.Informational}
	text := func(names ...string) (list []sdk.Attribute) {
		for _, name := range names {
			list = append(list, sdk.Attribute{Name: name, Type: sdk.Text})
		}
		return list
	}
	addresses := sdk.Attribute{Name: "ip_addresses", Type: sdk.List}
	return []sdk.Kind{
		{
			Category: "Open Port", When: "always", Severities: severities, Identity: []string{"location"},
			Attributes: append(text("state", "mac_address", "protocol", "hostname", "method", "operating_system", "service",
				"serviceProduct", "serviceVersion", "scripts"), addresses, sdk.Attribute{Name: "port", Type: sdk.Number}),
		},
		{
			Category: "Host", When: "always", Severities: severities, Identity: []string{"location"},
			Attributes: append(text("hostname", "operating_system"), addresses),
		},
	}
}

func parse(_ context.Context, in *sdk.Input, emit sdk.Emit) error {
	in.ReachUnknown("test-scan reaches for nothing")
	if in.Env(invalidFindings) == "true" {
		broken := host()
		broken.Name, broken.Category = finding.Text{}, finding.Text{}
		return emit(broken)
	}
	if err := emit(service()); err != nil {
		return err
	}
	return emit(host())
}

func service() *finding.Finding {
	return &finding.Finding{
		Name:        finding.String("Test read-write-hook service"),
		Description: finding.String("Port is using protocol."),
		Category:    finding.String("Open Port"),
		Location:    finding.String("tcp://rw-hook-test:80"),
		OSILayer:    finding.String("NETWORK"),
		Severity:    finding.String(finding.Informational),
		Attributes: finding.Object{
			{Key: "port", Value: 80},
			{Key: "state", Value: "Open"},
			{Key: "ip_addresses", Value: []string{"10.0.0.1"}},
			{Key: "mac_address", Value: "hostInfo.mac"},
			{Key: "protocol", Value: "openPort.protocol"},
			{Key: "hostname", Value: "hostInfo.hostname"},
			{Key: "method", Value: "openPort.method"},
			{Key: "operating_system", Value: "hostInfo.osNmap"},
			{Key: "service", Value: "openPort.service"},
			{Key: "serviceProduct", Value: "openPort.serviceProduct"},
			{Key: "serviceVersion", Value: "openPort.serviceVersion"},
			{Key: "scripts", Value: "openPort.scriptOutputs"},
		},
	}
}

func host() *finding.Finding {
	return &finding.Finding{
		Name:        finding.String("Host: hostname"),
		Category:    finding.String("Host"),
		Description: finding.String("Found a host"),
		Location:    finding.String("hostname"),
		Severity:    finding.String(finding.Informational),
		OSILayer:    finding.String("NETWORK"),
		Attributes: finding.Object{
			{Key: "ip_addresses", Value: []string{"10.0.0.1"}},
			{Key: "hostname", Value: "hostname"},
			{Key: "operating_system", Value: "osNmap"},
		},
	}
}
