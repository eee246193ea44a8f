// SPDX-License-Identifier: Apache-2.0

package ncrack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf16"
	"unicode/utf8"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

// envKey is the file with the age recipient that passwords are encrypted for.
const envKey = "ENCRYPTION_KEY_LOCATION"

// sealer encrypts passwords, if there is a recipient's key.
type sealer struct{ recipient age.Recipient }

// newSealer reads the key that the environment names. No error shows what is in the file: it may be the wrong one.
func newSealer(env func(string) string) (*sealer, error) {
	file := env(envKey)
	if file == "" {
		return &sealer{}, nil
	}
	key, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the public key that %s names: %w", envKey, err)
	}
	recipients, err := age.ParseRecipients(bytes.NewReader(trim(key)))
	if err != nil {
		return nil, fmt.Errorf("%s: must hold an age recipient (age1…): %w", file, err)
	}
	if len(recipients) != 1 {
		return nil, fmt.Errorf("%s: must hold one age recipient, but holds %d", file, len(recipients))
	}
	return &sealer{recipient: recipients[0]}, nil
}

// trim takes off white space and a byte order mark.
func trim(key []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(key), []byte("\uFEFF")))
}

// wellFormed replaces halves of surrogate pairs, which only character references can make, and joins those that fit.
func wellFormed(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var units []uint16
	for _, unit := range ecma.Units(text) {
		units = append(units, uint16(unit))
	}
	return string(utf16.Decode(units))
}

// password is the attribute's value: as it is without a key, else encrypted.
func (s *sealer) password(plain finding.Text) (any, error) {
	if s.recipient == nil {
		return plain, nil
	}
	text, ok := plain.Get()
	if !ok {
		return nil, errors.New("have no password that could be encrypted")
	}
	var sealed bytes.Buffer
	armored := armor.NewWriter(&sealed)
	encrypted, err := age.Encrypt(armored, s.recipient)
	if err != nil {
		return nil, fmt.Errorf("encrypt the password: %w", err)
	}
	if _, err := io.WriteString(encrypted, wellFormed(text)); err != nil {
		return nil, fmt.Errorf("encrypt the password: %w", err)
	}
	if err := errors.Join(encrypted.Close(), armored.Close()); err != nil {
		return nil, fmt.Errorf("encrypt the password: %w", err)
	}
	return sdk.Sealed(sealed.String()), nil
}
