// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// maxFile bounds how much of a file is read; the API server accepts less.
const maxFile = 4 << 20

// readScan reads one Scan. A field that does not exist is an error, with its name.
func readScan(stdin io.Reader, path string) (*executionv1.Scan, error) {
	name, in := path, stdin
	if path == "-" {
		name = "stdin"
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("--from %s: %w", name, err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("--from %s: it is larger than %d MiB", name, maxFile>>20)
	}
	scan := &executionv1.Scan{}
	// This decoder names a field that does not exist by its whole path.
	asJSON, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, fmt.Errorf("--from %s: %w", name, err)
	}
	mistakes, err := json.UnmarshalStrict(asJSON, scan)
	if err = errors.Join(append(mistakes, err)...); err != nil {
		return nil, fmt.Errorf("--from %s: %w", name, err)
	}
	want := executionv1.SchemeGroupVersion.WithKind("Scan")
	if got := scan.GroupVersionKind(); got != want {
		return nil, fmt.Errorf("--from %s: it holds apiVersion %q, kind %q, and not a Scan of %s", name, scan.APIVersion, scan.Kind, want.GroupVersion())
	}
	if scan.Spec.Parameters == nil {
		scan.Spec.Parameters = []string{}
	}
	scan.Status = executionv1.ScanStatus{}
	scan.ResourceVersion, scan.UID = "", ""
	return scan, nil
}

// printDry prints a Scan as a file for --from: without the fields that the API server adds.
func (o *createOptions) printDry(scan *executionv1.Scan) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scan)
	if err != nil {
		return fmt.Errorf("print the scan: %w", err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("Scan"))
	unstructured.RemoveNestedField(fields, "status")
	for _, added := range []string{"uid", "creationTimestamp", "generation", "resourceVersion", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(fields, "metadata", added)
	}
	if scan.GenerateName != "" {
		unstructured.RemoveNestedField(fields, "metadata", "name")
	}
	if !o.output.Set() {
		_, err := fmt.Fprintf(o.session.Out, "scan of type %s: the API server takes it (dry run)\n", scan.Spec.ScanType)
		return err
	}
	return o.output.Print(o.session, u)
}
