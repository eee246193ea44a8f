// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/hooks/sdk"
)

// TestExamples holds every hook's example.yaml to the hook: the right type and HOOK, and settings that New takes.
func TestExamples(t *testing.T) {
	for _, h := range hooks {
		t.Run(h.Name, func(t *testing.T) {
			var found bool
			files, err := filepath.Glob("../../*/example.yaml")
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				var object executionv1.ScanCompletionHook
				if err := yaml.UnmarshalStrict(text, &object); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				if object.Name != h.Name {
					continue
				}
				found = true
				checkExample(t, h, &object)
			}
			if !found {
				t.Errorf("no example.yaml has the name %s", h.Name)
			}
		})
	}
}

func checkExample(t *testing.T, h sdk.Hook, object *executionv1.ScanCompletionHook) {
	env := map[string]string{}
	for _, e := range object.Spec.Env {
		env[e.Name] = e.Value
	}
	if string(object.Spec.Type) != h.Type() || env["HOOK"] != h.Name {
		t.Errorf("type %s and HOOK %q, want %s and %q", object.Spec.Type, env["HOOK"], h.Type(), h.Name)
	}
	if _, err := h.New(func(name string) (string, bool) { value, ok := env[name]; return value, ok }); err != nil {
		t.Errorf("settings are refused: %v", err)
	}
}
