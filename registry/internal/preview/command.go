// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// Exit codes beside 0.
const (
	exitRefused    = 1
	exitUnreadable = 2
)

// errRefused is the error of an answer that holds one.
var errRefused = errors.New("the filter is refused")

// unreadable is an error of the command line or of an input. Its text names the flag, or the file and the field.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

// ExitCode is the code that an error of the command ends the process with.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errRefused):
		return exitRefused
	}
	return exitUnreadable
}

// Streams are what the command reads and writes. Now dates tags that come without a time.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Now      func() time.Time
}

type files struct{ filter, tags, manifests string }

// New makes the command.
func New(streams Streams) *cobra.Command {
	var f files
	command := &cobra.Command{
		Use: "preview (--filter FILE --tags FILE | --manifests FILE)", Short: "Tell from files what a filter takes, or what images a reference holds",
		Long: `Tell from files what a filter takes, or what images a reference holds.

- is standard input. The answer is one JSON document. No registry, cluster or configuration is asked.

The filter is YAML or JSON with the fields platforms, repositories, excludeRepositories, tags and rules of a Registry's spec. The tags are JSON:
  {"registry": "registry.example.com", "repository": "shop/app", "now": "2025-09-01T00:00:00Z",
   "tags": [{"tag": "1.2", "digest": "sha256:…", "created": "2025-08-30T10:00:00Z", "firstSeen": …, "platforms": ["linux/amd64"]}]}
where only tag is required. The manifests are JSON:
  {"digest": "sha256:…", "platforms": ["linux/*"], "documents": {"sha256:…": {"contentType": "application/…", "body": "{…}"}}}

Exit codes: 0 fine, 1 the answer holds an error, 2 the input cannot be read.`,
		Example: `  registry-worker preview --filter filter.yaml --tags tags.json
  registry-worker preview --manifests - <documents.json`,
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error { return run(streams, f) },
	}
	command.SetOut(streams.Out)
	command.SetErr(streams.Err)
	command.Flags().StringVar(&f.filter, "filter", "", "file with a filter")
	command.Flags().StringVar(&f.tags, "tags", "", "file with the tags of a repository")
	command.Flags().StringVar(&f.manifests, "manifests", "", "file with the documents behind a reference")
	command.MarkFlagsRequiredTogether("filter", "tags")
	command.MarkFlagsMutuallyExclusive("filter", "manifests")
	command.MarkFlagsMutuallyExclusive("tags", "manifests")
	command.MarkFlagsOneRequired("filter", "manifests")
	return command
}

func run(streams Streams, f files) error {
	if f.manifests != "" {
		answer, err := findImages(streams.In, f.manifests)
		if err != nil {
			return err
		}
		return write(streams.Out, answer)
	}
	if f.filter == stdin && f.tags == stdin {
		return unreadable{errors.New("--filter and --tags cannot both be -: standard input is read once")}
	}
	answer, err := selectTags(streams, f)
	if err != nil {
		return err
	}
	if answer.Error != nil {
		return errors.Join(fmt.Errorf("%w: %w", errRefused, answer.Error), write(streams.Out, answer))
	}
	return write(streams.Out, answer)
}

func write(out io.Writer, answer any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(answer)
}

const stdin = "-"

// called is how messages call a file.
func called(name string) string {
	if name == stdin {
		return "standard input"
	}
	return name
}

func read(in io.Reader, name string) ([]byte, error) {
	if name == stdin {
		content, err := io.ReadAll(in)
		if err != nil {
			return nil, unreadable{fmt.Errorf("%s: %w", called(name), err)}
		}
		return content, nil
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, unreadable{err}
	}
	return content, nil
}
