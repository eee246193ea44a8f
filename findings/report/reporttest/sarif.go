// SPDX-License-Identifier: Apache-2.0

package reporttest

import (
	"bytes"
	_ "embed"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed sarif-schema-2.1.0.json
var sarifSchema []byte

// SARIF returns a function that validates a log, formats of strings included.
func SARIF(t testing.TB) func(log []byte) error {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(sarifSchema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	const address = "sarif.json"
	if err := compiler.AddResource(address, document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(address)
	if err != nil {
		t.Fatal(err)
	}
	return func(log []byte) error {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(log))
		if err != nil {
			return err
		}
		return schema.Validate(value)
	}
}
