// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"fmt"
)

// Hook describes one hook: what people read about it and how it is made.
type Hook struct {
	// Name is what the hook is called in images, charts and on the command line.
	Name string
	// Summary is one sentence on what it does.
	Summary string
	// Writes says that it changes findings or the raw result, so that it must be installed as ReadAndWrite.
	Writes bool
	// Settings are the environment variables it reads, for the help text.
	Settings []Setting
	// New reads the settings. Its errors name the variable that is wrong.
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
	// Text says what it means, with its default.
	Text string
}

// Handler does a hook's work for one Scan. An error ends the container with exit code 1; the Job then tries again.
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
