// SPDX-License-Identifier: Apache-2.0

package container

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/retry"
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
	// Raw is where the raw result is downloaded from; File is the path of the raw result in the scanner's pod. One of them is set.
	Raw  transfer.URL
	File string
	// Handoff is the folder in which the lurker of the scanner's pod says that the scanner has ended; "" in a pod of the parser's own.
	Handoff  string
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
	a := Arguments{Findings: transfer.URL(args[1]), Scan: scan, Strict: env(EnvStrict) == "true", ExtraCA: env(process.EnvExtraCA)}
	if IsFused(args) {
		a.File, a.Handoff = strings.TrimPrefix(args[0], fileScheme), env(handover.EnvHandoff)
	} else {
		a.Raw = transfer.URL(args[0])
	}
	return a, err
}

// fileScheme begins the address of a raw result that is a file beside the parser.
const fileScheme = "file://"

// IsFused reports whether the arguments are those of a parser in its scanner's pod.
func IsFused(args []string) bool { return len(args) > 0 && strings.HasPrefix(args[0], fileScheme+"/") }

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
	// Clock gives parsed_at, once per run.
	Clock retry.Clock
	// Log gets the steps of the run.
	Log *slog.Logger
}
