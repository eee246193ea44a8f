// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

// The schemas of documents.
const (
	schemaSPDX      = "spdx-2.3.schema.json"
	schemaCycloneDX = "bom-1.6.schema.json"
)

// embedded gives schemas by the last part of their address, which is how they refer to each other. Nothing is asked for over the network.
type embedded struct{}

// Load reads a schema.
func (embedded) Load(address string) (any, error) {
	content, err := schemaFiles.ReadFile("schemas/" + path.Base(address))
	if err != nil {
		return nil, fmt.Errorf("find schema %s: %w", address, err)
	}
	// The text of SPDX 2.3 (7.24) has a hyphen where its schema has an underscore. Both are in use.
	content = bytes.Replace(content, []byte(`"OPERATING_SYSTEM"`), []byte(`"OPERATING_SYSTEM", "OPERATING-SYSTEM"`), 1)
	return jsonschema.UnmarshalJSON(bytes.NewReader(content))
}

// compile makes a schema ready, once: it takes a tenth of a second.
func compile(name string) func() (*jsonschema.Schema, error) {
	return sync.OnceValues(func() (*jsonschema.Schema, error) {
		compiler := jsonschema.NewCompiler()
		compiler.UseLoader(embedded{})
		return compiler.Compile("http://schemas.invalid/" + name)
	})
}

var (
	spdxSchema      = compile(schemaSPDX)
	cyclonedxSchema = compile(schemaCycloneDX)
)

// maxFaults is how many are told of a document.
const maxFaults = 5

// validBySchema holds a document to a schema. The error names the places that are wrong, as JSON pointers.
func validBySchema(content []byte, schema func() (*jsonschema.Schema, error)) error {
	compiled, err := schema()
	if err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("the document is not JSON: %w", err)
	}
	err = compiled.Validate(value)
	fault, told := errors.AsType[*jsonschema.ValidationError](err)
	if !told {
		return err
	}
	var places []string
	for _, f := range leaves(fault) {
		if len(places) < maxFaults {
			places = append(places, "/"+strings.Join(f.InstanceLocation, "/")+": "+f.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
		}
	}
	return fmt.Errorf("the document does not fit the schema: %s", strings.Join(places, "; "))
}

// leaves are what is wrong, and not what is wrong because of it.
func leaves(fault *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(fault.Causes) == 0 {
		return []*jsonschema.ValidationError{fault}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range fault.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}
