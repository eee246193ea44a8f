// SPDX-License-Identifier: Apache-2.0

package container

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/scanyard/scanyard/apis/transfer"
	"github.com/scanyard/scanyard/parsers/sdk"
)

// The environment variables of the contract.
const (
	// EnvScanName names the Scan.
	EnvScanName = "SCAN_NAME"
	// EnvNamespace is the namespace of the Scan.
	EnvNamespace = "NAMESPACE"
	// EnvStrict makes findings that break the schema an error when it is exactly "true".
	EnvStrict = "CRASH_ON_FAILED_VALIDATION"
	// EnvExtraCA is a PEM file of certificates to trust beside the system's when talking to the object store.
	EnvExtraCA = "NODE_EXTRA_CA_CERTS"
)

// DefaultBufferLimit is how large findings may be to be parsed only once.
const DefaultBufferLimit = 4 << 20

// Arguments are what the operator gives the container.
type Arguments struct {
	Raw       transfer.URL
	Findings  transfer.URL
	ScanName  string
	Namespace string
	Strict    bool
	ExtraCA   string
}

// ParseArguments reads the two arguments and the environment. The error names what is missing.
func ParseArguments(args []string, env func(string) string) (Arguments, error) {
	if len(args) != 2 {
		return Arguments{}, fmt.Errorf("the container takes two arguments, the URL of the raw result and the URL for "+
			"the findings, but was given %d", len(args))
	}
	a := Arguments{
		Raw: transfer.URL(args[0]), Findings: transfer.URL(args[1]),
		ScanName: env(EnvScanName), Namespace: env(EnvNamespace),
		Strict: env(EnvStrict) == "true", ExtraCA: env(EnvExtraCA),
	}
	var missing []error
	for _, v := range []struct{ name, value string }{{EnvScanName, a.ScanName}, {EnvNamespace, a.Namespace}} {
		if v.value == "" {
			missing = append(missing, fmt.Errorf("environment variable %s is not set; "+
				"the operator sets it in every parser Job", v.name))
		}
	}
	return a, errors.Join(missing...)
}

// Config is all that Run needs.
type Config struct {
	Arguments
	// Lookup finds the parser of a result type.
	Lookup func(resultType string) (sdk.Parser, error)
	// Env is handed to the parser.
	Env func(string) string
	// Scans reads and patches the Scan.
	Scans *Scans
	// Store moves the raw result and the findings.
	Store *transfer.Client
	// Limits bound the parser.
	Limits sdk.Limits
	// BufferLimit is how large findings may be to be kept in memory.
	BufferLimit int
	// Now gives parsed_at, once per run.
	Now func() time.Time
	// Log tells what is done.
	Log *slog.Logger
}
