// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Hook is one hook: its description for people, and how it is made.
type Hook struct {
	// Name is the name of the hook in images, charts and on the command line.
	Name string
	// Summary is one sentence about the hook.
	Summary string
	// Writes says that the hook changes findings or the raw result, so that it must be installed as ReadAndWrite.
	Writes bool
	// Settings are the environment variables that the hook reads, for the help text.
	Settings []Setting
	// Excepted is what becomes of findings that an exception matches, unless EXCEPTED says otherwise. Empty: the hook hands
	// no findings on, and has no such setting.
	Excepted Excepted
	// New reads the settings. Its errors name the wrong variable.
	New func(env Env) (Handler, error)
}

// Type is the word for `spec.type` of the ScanCompletionHook.
func (h Hook) Type() string {
	if h.Writes {
		return "ReadAndWrite"
	}
	return "ReadOnly"
}

// Setting is one environment variable of a hook.
type Setting struct {
	// Name of the variable.
	Name string
	// Text is the meaning of the variable, with its default.
	Text string
}

// Handler does a hook's work for one Scan. An error ends the container with exit code 1; the Job then retries.
type Handler interface {
	Handle(ctx context.Context, s *Session) error
}

// HandlerFunc is a Handler without state.
type HandlerFunc func(ctx context.Context, s *Session) error

// Handle calls the function.
func (f HandlerFunc) Handle(ctx context.Context, s *Session) error { return f(ctx, s) }

// Env looks an environment variable up, as os.LookupEnv does.
type Env func(name string) (string, bool)

// Get is the variable's value, or the empty text.
func (e Env) Get(name string) string {
	value, _ := e(name)
	return value
}

// Require is the variable's value, which must be there and not empty.
func (e Env) Require(name string) (string, error) {
	if value, ok := e(name); ok && value != "" {
		return value, nil
	}
	return "", fmt.Errorf("environment variable %s is not set", name)
}

// maxSecretFile is larger than any secret, and harmless.
const maxSecretFile = 64 << 10

// Secret is a variable's value, or the content of the file that NAME_FILE names, without a line break at its end; or the
// empty text. Hooks read every setting that may contain a credential with Secret, so that it can be mounted.
func (e Env) Secret(name string) (string, error) {
	value, path := e.Get(name), e.Get(name+"_FILE")
	switch {
	case path == "":
		return value, nil
	case value != "":
		return "", fmt.Errorf("both %s and %s_FILE are set; one is enough", name, name)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read %s_FILE: %w", name, err)
	}
	defer file.Close() //nolint:errcheck // the file was only read
	content, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if err != nil {
		return "", fmt.Errorf("read %s_FILE: %w", name, err)
	}
	if len(content) > maxSecretFile {
		return "", fmt.Errorf("read %s_FILE: it is longer than %d bytes", name, maxSecretFile)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r"), nil
}

// RequireSecret is Secret for a variable that must be set.
func (e Env) RequireSecret(name string) (string, error) {
	value, err := e.Secret(name)
	if err == nil && value == "" {
		err = fmt.Errorf("environment variable %s is not set (nor %s_FILE)", name, name)
	}
	return value, err
}

// Duration is a variable such as 30s, greater than zero; or fallback if it is not set.
func (e Env) Duration(name string, fallback time.Duration) (time.Duration, error) {
	text := e.Get(name)
	if text == "" {
		return fallback, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s is %q, want a duration such as 30s", name, text)
	}
	return d, nil
}

// Count is a variable that is a whole number of 1 or more; or fallback if it is not set.
func (e Env) Count(name string, fallback int) (int, error) {
	text := e.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is %q, want a number of 1 or more", name, text)
	}
	return n, nil
}

// Bool is a variable that is true or false; or fallback if it is not set.
func (e Env) Bool(name string, fallback bool) (bool, error) {
	switch text := strings.ToLower(e.Get(name)); text {
	case "":
		return fallback, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, errors.New(name + " is neither true nor false")
	}
}
