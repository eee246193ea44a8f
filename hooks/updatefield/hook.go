// SPDX-License-Identifier: Apache-2.0

package updatefield

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/hooks/sdk"
)

// Hook registers update-field.
func Hook() sdk.Hook {
	return sdk.Hook{
		Name:    "update-field",
		Summary: "Sets one field of every finding to a fixed text.",
		Writes:  true,
		Settings: []sdk.Setting{
			{Name: "ATTRIBUTE_NAME", Text: "path of the field, such as category, attributes.owner.team, attributes.list[0]"},
			{Name: "ATTRIBUTE_VALUE", Text: "the text; may be empty"},
		},
		New: newHandler,
	}
}

type handler struct {
	path  Path
	value json.RawMessage
}

func newHandler(env sdk.Env) (sdk.Handler, error) {
	name, err := env.Require("ATTRIBUTE_NAME")
	if err != nil {
		return nil, err
	}
	text, ok := env("ATTRIBUTE_VALUE")
	if !ok {
		return nil, errors.New("environment variable ATTRIBUTE_VALUE is not set")
	}
	return newField(name, text)
}

func newField(name, text string) (*handler, error) {
	path, err := ParsePath(name)
	if err != nil {
		return nil, fmt.Errorf("ATTRIBUTE_NAME: %w", err)
	}
	value, err := encodeText(text)
	if err != nil {
		return nil, fmt.Errorf("ATTRIBUTE_VALUE: %w", err)
	}
	return &handler{path: path, value: value}, nil
}

// Handle rewrites all findings.
func (h *handler) Handle(ctx context.Context, s *sdk.Session) error {
	return s.EditFindings(ctx, h.edit)
}

func (h *handler) edit(element []byte) ([]byte, error) {
	changed, err := h.path.Set(element, h.value)
	if err != nil {
		return nil, fmt.Errorf("set %s: %w", h.path, err)
	}
	return changed, nil
}
