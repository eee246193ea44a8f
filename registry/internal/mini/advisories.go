// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"encoding/json"
	"fmt"
	"os"
)

// ReadAdvisories makes one database of several files. The latest date is that of the whole.
func ReadAdvisories(files ...string) (*Advisories, error) {
	all := &Advisories{Schema: schema}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read advisories: %w", err)
		}
		one, err := parseAdvisories(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		all.Advisories = append(all.Advisories, one.Advisories...)
		if one.BuiltAt.After(all.BuiltAt) {
			all.BuiltAt = one.BuiltAt
		}
	}
	return all, nil
}

// Write stores a database as the file that db-update takes.
func (a *Advisories) Write(name string) error {
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode advisories: %w", err)
	}
	const permissions = 0o600
	if err := os.WriteFile(name, text, permissions); err != nil {
		return fmt.Errorf("write advisories: %w", err)
	}
	return nil
}
