// SPDX-License-Identifier: Apache-2.0

package container

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/scanclient"
	"github.com/scanyard/scanyard/podkit/transfer"
)

const (
	// EnvStrict makes findings that break the schema an error when it is exactly "true".
	EnvStrict = "CRASH_ON_FAILED_VALIDATION"
)

// DefaultBufferLimit is how large findings may be to be parsed only once.
const DefaultBufferLimit = 4 << 20

// Arguments are what the operator gives the container.
type Arguments struct {
	Raw      transfer.URL
	Findings transfer.URL
	Scan     process.Scan
	Strict   bool
	ExtraCA  string
}

// ParseArguments reads the two arguments and the environment. The error names what is missing.
func ParseArguments(args []string, env func(string) string) (Arguments, error) {
	if len(args) != 2 {
		return Arguments{}, process.Misconfigured(fmt.Errorf("the container takes two arguments, the URL of the raw result and "+
			"the URL for the findings, but was given %d", len(args)))
	}
	scan, err := process.ScanOf(env)
	return Arguments{
		Raw: transfer.URL(args[0]), Findings: transfer.URL(args[1]), Scan: scan,
		Strict: env(EnvStrict) == "true", ExtraCA: env(process.EnvExtraCA),
	}, err
}

// Config is all that Run needs.
type Config struct {
	Arguments
	// Lookup finds the parser of a result type.
	Lookup func(resultType string) (sdk.Parser, error)
	// Env is handed to the parser.
	Env func(string) string
	// Handover is the Scan where the operator has handed it over. Nil: Client reads and patches it.
	Handover *scanclient.Handover
	// Leave writes the termination message with the outcome for the operator, if there is a Handover.
	Leave func(words []byte) error
	// Client reads and patches the Scan. Nil where there is a Handover.
	Client *scanclient.Client
	// Store moves the raw result and the findings.
	Store *transfer.Client
	// Limits bound the parser.
	Limits sdk.Limits
	// BufferLimit is how large findings may be to be kept in memory.
	BufferLimit int
	// Now gives parsed_at, once per run.
	Now func() time.Time
	// Log gets the steps of the run.
	Log *slog.Logger
}
